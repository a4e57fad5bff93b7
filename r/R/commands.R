# One function a command of the program; options are named arguments with _ for -.

cd_run <- function(algorithm, files, ..., out = tempfile("cipherdag-"), quiet = FALSE) {
  result_of(c("run", algorithm), files, list(...), out, quiet)
}

cd_simulate <- function(algorithm, data, ..., out = tempfile("cipherdag-"), quiet = FALSE) {
  if (is.data.frame(data)) {
    rows <- tempfile("rows-", fileext = ".csv")  # stays until R ends: cd_effect reads it again
    utils::write.csv(data, rows, row.names = FALSE, na = "", fileEncoding = "UTF-8")
    data <- rows
  }
  result_of(c("simulate", algorithm), data, list(...), out, quiet)
}

cd_effect <- function(result, of, on, ..., out = tempfile("cipherdag-"), quiet = FALSE) {
  folder <- if (inherits(result, "cipherdag_result")) result$folder else result
  result_of("effect", folder, list(of = of, on = on, ...), out, quiet)
}

cd_status <- function(dir = ".") cd_command("site", "status", dir = dir)[[1]]

cd_result <- function(folder) {
  saved <- jsonlite::fromJSON(file.path(folder, "result.json"))
  structure(c(saved, list(folder = normalizePath(folder))), class = "cipherdag_result")
}

cd_command <- function(..., quiet = TRUE) {
  words <- list(...)
  named <- if (is.null(names(words))) rep(FALSE, length(words)) else names(words) != ""
  called(unlist(words[!named]), words[named], quiet)
}

result_of <- function(command, sources, options, out, quiet) {
  called(c(command, sources), c(options, list(out = out)), quiet)
  cd_result(out)
}

# The values that the program prints as JSON; its failure is an R error of class cipherdag_failure.
called <- function(words, options, quiet) {
  said <- tempfile("stdout-")
  complaints <- tempfile("stderr-")
  on.exit(unlink(c(said, complaints)))
  arguments <- c(words, spelled(options), "--json")
  code <- started(arguments, stdout = said, stderr = complaints)
  lines <- readLines(complaints, encoding = "UTF-8", warn = FALSE)
  if (code != 0) stop(failure(lines, code))
  if (!quiet && length(lines)) message(paste(lines, collapse = "\n"))
  values(readLines(said, encoding = "UTF-8", warn = FALSE))
}

# --name value; TRUE is a flag, FALSE and NULL say nothing, and each element of a list repeats the option.
spelled <- function(options) {
  unlist(Map(function(name, value) {
    flag <- paste0("--", gsub("_", "-", name, fixed = TRUE))
    if (isTRUE(value)) return(flag)
    if (is.null(value) || isFALSE(value)) return(character())
    each <- if (is.list(value)) value else list(value)
    unlist(lapply(each, function(one) c(flag, if (is.numeric(one)) sapply(one, exactly) else as.character(one))))
  }, names(options), options), use.names = FALSE)
}

exactly <- function(number) format(number, digits = 15, scientific = FALSE)

# R puts its libraries before all others, and Python must not load those.
started <- function(arguments, ...) system2(program(), shQuote(arguments), env = "LD_LIBRARY_PATH=", ...)

program <- function() {
  chosen <- getOption("cipherdag.program", Sys.which("cipherdag")[[1]])
  if (nzchar(chosen)) return(chosen)
  stop("cipherdag is not on the PATH; set options(cipherdag.program = \"/path/to/.venv/bin/cipherdag\")", call. = FALSE)
}

# Runs print one value a line, other commands one value over several lines.
values <- function(lines) {
  whole <- all(vapply(lines, jsonlite::validate, logical(1)))
  texts <- if (whole) lines else paste(lines, collapse = "\n")
  lapply(texts, jsonlite::fromJSON)
}

failure <- function(lines, code) {
  last <- if (length(lines)) lines[[length(lines)]] else ""
  fields <- if (jsonlite::validate(last)) jsonlite::fromJSON(last) else list(cause = paste(lines, collapse = "\n"))
  fields$exit_code <- code
  structure(class = c("cipherdag_failure", "error", "condition"), c(fields, list(call = NULL)))
}

conditionMessage.cipherdag_failure <- function(c) {
  paste(c(c$cause, c$effect, c$remedy), collapse = "\n")
}
