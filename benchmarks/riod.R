# One case of iod_peers.py: rIOD's list of PAGs over all columns, from the answers of every test.
#   Rscript riod.R FOLDER CASE.json
suppressPackageStartupMessages({
  library(pcalg); library(rje); library(dagitty); library(foreach); library(ggm); library(jsonlite)
})
given <- commandArgs(trailingOnly = TRUE)
# the two are read from their sources, since the packages ask for more than is used here
`%dofuture%` <- `%do%`
parts <- c("FCI.Utils/R/utils.R", "FCI.Utils/R/mec_utils.R", "FCI.Utils/R/dag_models.R",
           "FCI.Utils/R/citest_utils.R", "rIOD/R/IOD_Helper.R", "rIOD/R/IOD.R")
for (part in parts) source(file.path(given[1], part))
case <- fromJSON(given[2], simplifyVector = FALSE)
# one of rIOD's functions finds the labels by this name outside its arguments
labelList <- lapply(case$groups, unlist)
results <- lapply(case$tests, function(tests) {
  do.call(rbind, lapply(tests, function(own) {
    data.frame(ord = own[[1]], X = own[[2]], Y = own[[3]], S = own[[4]], pvalue = own[[5]])
  }))
})
began <- proc.time()[["user.self"]]
# what it prints is no part of the answer
silent <- capture.output(
  found <- IOD(labelList, list(citestResultsList = results, labelList = labelList))
)
took <- proc.time()[["user.self"]] - began
names <- unlist(case$names)
pags <- lapply(found$G_PAG_List, function(own) unname(own[names, names]))
versions <- list(R = as.character(getRversion()), pcalg = as.character(packageVersion("pcalg")))
cat(toJSON(list(seconds = took, versions = versions, pags = pags), auto_unbox = TRUE))
