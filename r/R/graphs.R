# A learnt graph as other packages have it, by `cipherdag graph export`.

print.cipherdag_result <- function(x, ...) {
  cat(sprintf("%s over %d sites, in %s\n", x$algorithm, length(x$sites), x$folder))
  if (length(x$warnings)) cat(paste("!", x$warnings), sep = "\n")
  if (x$kind == "graph") {
    cat(started(c("graph", "show", x$folder), stdout = TRUE), sep = "\n")
  }
  invisible(x)
}

exported <- function(result, format, read) {
  file <- tempfile("graph-")
  on.exit(unlink(file))
  cd_command("graph", "export", result$folder, format = format, out = file)
  read(file)
}

as.igraph.cipherdag_result <- function(x, ...) {
  graph <- exported(x, "graphml", function(file) igraph::read_graph(file, format = "graphml"))
  igraph::set_vertex_attr(graph, "name", value = igraph::vertex_attr(graph, "id"))
}

as.bn.cipherdag_result <- function(x, ...) exported(x, "bnlearn", dget)

as.dagitty.cipherdag_result <- function(x, ...) {
  exported(x, "dagitty", function(file) dagitty::dagitty(paste(readLines(file), collapse = "\n")))
}
