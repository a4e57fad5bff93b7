# What BiDAG and pcalg say of the matrices that `graph_rivals.py --export FOLDER` wrote there.
#
#   Rscript benchmarks/graph_rivals.R FOLDER
#
# Both packages take rows, so rows are made that have exactly the matrix as their covariances. BiDAG
# 2.1.4: partitionMCMC on the BGe score with its usual options, after its usual search space of the
# PC algorithm at .05, and orderMCMC, which weighs a graph by its orders; a fifth is left out at the
# beginning. pcalg 2.7-12: pc at .01 by Fisher's z, and ges on BIC, each a CPDAG.

suppressMessages({
  library(BiDAG)
  library(pcalg)
})
BURN_IN <- 0.2

rows_with <- function(covariances, n) {
  p <- ncol(covariances)
  raw <- scale(matrix(rnorm(n * p), n, p), center = TRUE, scale = FALSE)
  white <- raw %*% solve(chol(crossprod(raw)))
  white %*% chol(covariances)
}

paths <- function(arcs) {
  reached <- arcs > 0
  for (step in seq_len(ncol(arcs))) reached <- reached | (reached %*% reached > 0)
  reached * 1
}

shares_of <- function(chain) {
  graphs <- lapply(chain$traceadd$incidence, as.matrix)
  later <- graphs[-seq_len(floor(BURN_IN * length(graphs)))]
  mean_of <- function(matrices) Reduce(`+`, matrices) / length(matrices)
  list(arrows = mean_of(later), causes = mean_of(lapply(later, paths)))
}

class_of <- function(fit) {
  arcs <- 1 * wgtMatrix(fit, transpose = FALSE)
  arcs[arcs != 0] <- 1
  list(arrows = arcs, causes = paths(arcs * (1 - t(arcs))))
}

folder <- commandArgs(trailingOnly = TRUE)[1]
for (file in list.files(folder, "^matrix_.*[.]csv$", full.names = TRUE)) {
  set.seed(1)
  sums <- unname(as.matrix(read.csv(file, header = FALSE)))
  n <- as.integer(sub(".*_n([0-9]+)[.]csv$", "\\1", file))
  p <- ncol(sums)
  covariances <- sums / n
  x <- rows_with(sums, n + 1)
  colnames(x) <- paste0("v", seq_len(p))
  timed <- function(make) {
    began <- proc.time()[["user.self"]]
    made <- make()
    c(made, list(seconds = proc.time()[["user.self"]] - began))
  }
  score <- scoreparameters("bge", x)
  said <- list(
    partition = timed(function() shares_of(sampleBN(score, "partition"))),
    order = timed(function() shares_of(sampleBN(score, "order"))),
    pc = timed(function() class_of(
      pc(list(C = cov2cor(covariances), n = n), gaussCItest, 0.01, p = p)@graph)),
    ges = timed(function() class_of(
      as(ges(new("GaussL0penObsScore", x))$essgraph, "graphNEL")))
  )
  for (method in names(said)) for (part in names(said[[method]])) {
    made <- sub("matrix_", paste0("said_", method, "_", part, "_"), file)
    write.table(said[[method]][[part]], made, sep = ",", row.names = FALSE, col.names = FALSE)
  }
  cat(basename(file), sapply(said, function(one) round(one$seconds, 1)), "\n")
}
