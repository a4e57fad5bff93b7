# The program itself is started: options(cipherdag.program = ...) or the PATH says which.
library(cipherdag)

set.seed(1)
age <- rnorm(600)
pressure <- age + rnorm(600)
renin <- rnorm(600)
aldosterone <- pressure + renin + rnorm(600)
people <- data.frame(age, pressure, renin, aldosterone)

result <- cd_simulate("fedpc", people, sites = 3, alpha = 0.01, seed = 2, quiet = TRUE)
edges <- with(result$edges, paste(from, mark, to))
stopifnot(
  inherits(result, "cipherdag_result"),
  identical(result$parameters$alpha, 0.01),
  identical(result$seed, 2L),
  length(result$sites) == 3,
  c("aldosterone", "pressure") %in% unlist(result$edges[c("from", "to")]),
  nrow(result$edges) == 3,
  identical(cd_result(result$folder)$edges, result$edges),
  any(grepl(edges[[1]], capture.output(print(result)), fixed = TRUE))
)

effect <- cd_effect(result, of = "renin", on = "aldosterone", quiet = TRUE)
stopifnot(identical(effect$kind, "effect"), file.exists(file.path(effect$folder, "report.html")))

# a flag, an option that is left out, one that is repeated
forced <- cd_simulate(
  "fedpc", people, force = TRUE, bootstrap = NULL, out = effect$folder, quiet = TRUE,
  forbid = list(c("age", "pressure"), c("pressure", "age"))
)
stopifnot(!any(forced$edges$from == "age" & forced$edges$to == "pressure"))

# a failure has the program's cause, remedy and exit code
failed <- tryCatch(cd_simulate("fedpc", people, out = result$folder), cipherdag_failure = identity)
stopifnot(
  identical(failed$error, "ResultExistsError"),
  failed$exit_code == 1,
  grepl("--force", failed$remedy, fixed = TRUE),
  grepl(failed$cause, conditionMessage(failed), fixed = TRUE)
)
missing <- tryCatch(cd_run("fedpc", "no such file.csv"), cipherdag_failure = identity)
stopifnot(missing$exit_code == 2, grepl("no such file.csv", conditionMessage(missing), fixed = TRUE))

# a folder of a site
home <- tempfile("site")
rows <- tempfile(fileext = ".csv")
write.csv(people, rows, row.names = FALSE)
made <- cd_command("site", "new", "north", dir = home, data = rows, algorithm = "fedpc", files = tempfile("share"))
status <- cd_status(home)
stopifnot(identical(made[[1]]$algorithms, "fedpc"), identical(status$site, "north"), !status$started)

# graphs of other packages, each where it is installed
undirected <- sum(result$edges$mark == "---")
if (requireNamespace("igraph", quietly = TRUE)) {
  graph <- igraph::as.igraph(result)
  stopifnot(
    setequal(igraph::V(graph)$name, names(people)),
    igraph::ecount(graph) == nrow(result$edges) + undirected
  )
}
if (requireNamespace("bnlearn", quietly = TRUE)) {
  stopifnot(nrow(bnlearn::arcs(bnlearn::as.bn(result))) == nrow(result$edges) + undirected)
}
if (requireNamespace("dagitty", quietly = TRUE)) {
  stopifnot(nrow(dagitty::edges(dagitty::as.dagitty(result))) == nrow(result$edges))
}
