"""Every error the package raises on purpose, in one tree.

    CipherdagError              exit 1, the run failed
    ├── LedgerError, BundleError, OutputError, ResultExistsError, GraphError
    ├── ParameterError          exit 2, a parameter is out of its range
    ├── PrivacyError            exit 3, refused so that nothing leaks
    ├── SiteNotReadyError       exit 4, a site cannot take part yet
    ├── SiteUnreachableError    exit 5, a site does not answer
    └── DataError               exit 6, data do not fit the schema

A message says what happened and where; ``remedy`` says what to do about it; ``site`` names whose
side it happened on. None of them ever carries a row, a value that a share protects, or a key. A
message that must not leave its site, or not be shown, is replaced by its class's ``summary``.
"""

# ruff: noqa: D101

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

STOPPED = 130  # what Ctrl-C ends a command with, as in a shell


class CipherdagError(Exception):
    """Root of the tree: a message, the site concerned, a remedy and an exit code.

    Args:
        message: What happened, in one sentence, without data and without secrets.
        site: Name of the site concerned, if there is one.
        remedy: What to do; the class's own text when empty.
    """

    exit_code: ClassVar[int] = 1
    effect: str = "nothing was written"  # what a failed run leaves; other commands replace it
    summary: ClassVar[str] = "It failed, and did not say why"
    default_remedy: ClassVar[str] = "Read the message; if it is not clear, report it as a bug."

    def __init__(self, message: str, *, site: str | None = None, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.site = site
        self.remedy = remedy or self.default_remedy

    def __str__(self) -> str:
        return f"site '{self.site}': {self.message}" if self.site else self.message

    @classmethod
    def anchor(cls) -> str:
        """Its place on the page ``docs/errors.md``, such as ``schema-mismatch-error``."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", cls.__name__).lower()


class LedgerError(CipherdagError):
    """A ledger's chain, signature or end does not verify; ``line`` is 1-based."""

    summary = "A ledger's chain, signature or end does not verify"
    effect = "from this line on the ledger proves nothing"
    default_remedy = "Treat the ledger as altered: compare it with the site's copy."

    def __init__(
        self, message: str, *, line: int = 0, site: str | None = None, remedy: str = ""
    ) -> None:
        super().__init__(message, site=site, remedy=remedy)
        self.line = line


class BundleError(CipherdagError):
    __doc__ = summary = "A bundle of a result cannot be read, or a file of it does not verify"
    effect = "the bundle proves nothing"
    default_remedy = "Ask whoever made the bundle to send it again; it was changed on its way."


class OutputError(CipherdagError):
    __doc__ = summary = "A result folder or file cannot be written or read"
    default_remedy = "Choose another folder with --out, or make this one readable and writable."


class UnreadableRunError(OutputError):
    __doc__ = summary = "A file of a run is missing, altered, cut short or of another run"
    default_remedy = "Name the folder of another run, or copy this one again."


class ResultExistsError(OutputError):
    __doc__ = summary = "A file or result that exists would be overwritten, or a stopped run lost"
    default_remedy = (
        "Choose another folder, or overwrite it with --force; in Python, with force=True."
    )


@contextmanager
def writing(path: object) -> Iterator[None]:
    """Turns an `OSError` while ``path`` is written into an `OutputError`."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror or error}") from error


class GraphError(CipherdagError):
    __doc__ = summary = "A graph breaks the rules of its kind, such as a cycle in a DAG"
    default_remedy = "Check the edge list: no self-loop, no duplicate, no directed cycle."


class ParameterError(CipherdagError):
    __doc__ = summary = "A parameter is out of its range"
    exit_code = 2
    default_remedy = "Change what is named; `cipherdag COMMAND --help-all` says what there is."


class PrivacyError(CipherdagError):
    __doc__ = summary = "Refused so that nothing leaks"
    exit_code = 3
    effect = "the run stopped; no result was written and the refused message disclosed nothing"
    default_remedy = "Do not retry before the cause is understood: the refusal protects data."


class PolicyRefusedError(PrivacyError):
    __doc__ = "A site's own policy forbids what the coordinator asks."
    default_remedy = "Ask the site whether its policy.toml should allow this; it outranks the run."


class DifferencingError(PolicyRefusedError):
    __doc__ = "Two runs with different sites would show a site's answers by subtraction."
    default_remedy = (
        "Run with the same sites as before; or have a person of this site approve the run with "
        "`cipherdag site approve`, once the sites in which the runs differ agree to be seen."
    )


class CohortError(PrivacyError):
    __doc__ = "A cohort has too few sites, or an unknown or duplicate one."
    default_remedy = "Run with as many distinct sites as are asked for, each known to every other."


class SignatureError(PrivacyError):
    __doc__ = "A message is not signed by the party it names."
    default_remedy = "Compare the party's key fingerprint out of band before you go on."


class ReplayError(PrivacyError):
    __doc__ = "A round, a question digest or a message is used a second time."
    default_remedy = "Start a new run; a round is never asked twice."


class LostRecordsError(PrivacyError):
    __doc__ = "A site's ledger lacks records that the site signed."
    default_remedy = "Put its newest folder back, stop copies of it; or enrol it by another name."


class InconsistentQuestionError(PrivacyError):
    __doc__ = "The sites of a cohort were not asked the same question."
    default_remedy = "Stop: the coordinator sent different questions. Inform every site."


class KeyAgreementError(PrivacyError):
    __doc__ = "A key is missing, duplicated, swapped, unsigned or of low order."
    default_remedy = "Stop: someone altered the keys on their way. Set the run up anew."


class ComparisonKeyError(KeyAgreementError):
    __doc__ = "Keys of secure tests were altered, or dealer and verifier dealt differently."
    default_remedy = "Stop: the dealer, the verifier or the coordinator lies. Set the run up anew."


class SpentKeyError(ReplayError):
    __doc__ = "A computing party of secure tests is asked for a step twice."
    default_remedy = "Start a new run: what is answered twice from one seed would show sums."


class MalformedMessageError(PrivacyError):
    __doc__ = "Bytes that do not decode strictly, are too long, or are of another version."
    default_remedy = "Check that both sides run the same version of cipherdag."


class ShareError(PrivacyError):
    __doc__ = "A share is cut short, altered or made under other parameters."
    default_remedy = "Repeat the run; if it recurs, check the connection to the site."


class OpeningRefusedError(PrivacyError):
    __doc__ = "A site will not open this ciphertext."
    default_remedy = "Only the sum over the sites asked is ever disclosed, once."


class BoundExceededError(PrivacyError):
    __doc__ = "An answer is not finite or lies outside the bound its question declares."
    default_remedy = "Check the site's data for extreme values, or raise the declared bound."


class AggregateRangeError(PrivacyError):
    __doc__ = "A sum lies outside what the cohort can produce."
    default_remedy = (
        "A site answered beyond its range, or its share was altered: set the run up anew. If it "
        "recurs, runs over disjoint groups of at least min_sites of its sites narrow down who lies."
    )


class ForgedSumError(PrivacyError):
    __doc__ = "A disclosed sum is not the sum of the sites' answers."
    default_remedy = (
        "The coordinator, its network or another site altered it: end the study, and ask them. "
        "Runs over disjoint groups of at least min_sites of its sites narrow down who lies."
    )


class ResultMismatchError(PrivacyError):
    __doc__ = "The sites did not come to one result."
    default_remedy = "Compare versions of numpy, scipy and torch at all sites, then ask who lies."


class RefusedError(PrivacyError):
    __doc__ = "The site refused; why stands in its own log."
    summary = "it refused; its own log says why"
    default_remedy = "Ask the people of the site to read site.log: it may have been restarted."


class ProgramMismatchError(PrivacyError):
    __doc__ = "A site has another version of a plan's program."
    default_remedy = "Install the same version of cipherdag, and of the algorithm, everywhere."


class ProtectionError(PrivacyError):
    __doc__ = "A protection is unknown, not installed or not allowed; there is no weaker fallback."
    default_remedy = "Choose masking, or bfv after `pip install 'cipherdag[bfv]'`."


class SiteNotReadyError(CipherdagError):
    """A site cannot take part yet."""

    summary = "the site is not ready; its own log says why"
    exit_code = 4
    effect = "the run stopped; no result was written"
    default_remedy = "Prepare the site, then start the run again."


class SiteComputationError(SiteNotReadyError):
    __doc__ = summary = "A site failed in its own computation; why stays in the site's own log"
    default_remedy = "Read the log on that site's machine; it is not sent for privacy."


class SessionLostError(SiteNotReadyError):
    """A site was restarted, or began another run, and no longer holds the keys of this one."""

    summary = "it was restarted, or began another run, and holds no keys of this one"
    default_remedy = "Start a new run: the keys of this one are gone (docs/adr/0005)."


class SiteUnreachableError(CipherdagError):
    __doc__ = summary = "A site does not answer"
    exit_code = 5
    effect = "the run stopped; no result was written"
    default_remedy = "Check that the site is running and reachable, then start the run again."


class DataError(CipherdagError):
    """Data do not fit the schema.

    Args:
        message: What is wrong, naming the column.
        file: The file or frame concerned.
        column: The column concerned.
        rows: Number of rows read.
        location: What the file's user calls the row concerned, such as "row 5 of the file".
        site: Name of the site, if known.
        remedy: What to do.
    """

    summary = "Data do not fit the schema"
    exit_code = 6
    effect = "nothing left any site but what its ledger says; no result was written"
    default_remedy = "Correct the file or its schema.toml."

    def __init__(
        self,
        message: str,
        *,
        file: str = "",
        column: str | None = None,
        rows: int | None = None,
        location: str = "",
        site: str | None = None,
        remedy: str = "",
    ) -> None:
        super().__init__(message, site=site, remedy=remedy)
        self.file, self.location = file, location
        self.column = column
        self.rows = rows

    def __str__(self) -> str:
        column = f"column '{self.column}'" if self.column is not None else ""
        rows = f"{self.rows} rows" if self.rows is not None else ""
        where = ", ".join(filter(None, (self.file, column, rows)))
        return f"{where}: {super().__str__()}" if where else super().__str__()


class UnreadableDataError(DataError):
    __doc__ = summary = "The file does not exist, is not a table, or has another encoding"
    declaration: tuple[tuple[str, str | int | bool], ...] = ()  # entries of [source] that mend it
    default_remedy = "Give a UTF-8 CSV with one header row, another table, or a database."


class DamagedFileError(UnreadableDataError):
    __doc__ = summary = "The file is cut short or damaged"
    default_remedy = "Copy the file again from where it was made."


class DatabaseError(UnreadableDataError):
    __doc__ = summary = "A database does not give the table; no cell or password is ever quoted"
    default_remedy = "Try the query with a program for the database, as the same user."


class DatabaseAddressError(DatabaseError):
    __doc__ = summary = "The file that names a database is wrong, or its address has a password"
    default_remedy = "Correct the file; docs/howto/read-from-a-database.md shows every key of it."


class DatabaseCredentialsError(DatabaseError):
    __doc__ = summary = "The file with a database's password is missing, open to others or wrong"
    default_remedy = "Write it with the keys user and password, then `chmod 600` it."


class DatabaseDriverError(DatabaseError):
    __doc__ = summary = "A package that reads this kind of database is not installed"
    default_remedy = "Run `pip install 'cipherdag[sql]'`, or install the database's driver."


class DatabaseUnreachableError(DatabaseError):
    __doc__ = summary = "The database does not answer at its address"
    default_remedy = "Check host, port and firewall, and that the database runs."


class DatabaseLoginError(DatabaseError):
    __doc__ = summary = "The database refuses the user or the password"
    default_remedy = "Correct user and password in the credentials file; try them with psql."


class DatabaseQueryError(DatabaseError):
    __doc__ = summary = "A table or column is unknown, may not be read, or the query is faulty"
    default_remedy = "Correct table, columns or query; what the user may not read looks unknown."


class EmptyDataError(DataError):
    __doc__ = summary = "The file has no row of data"
    default_remedy = "Give a file with a header and at least two rows."


class TooFewRowsError(DataError):
    __doc__ = summary = "The file has fewer rows than any test needs"
    default_remedy = "Give a file with at least two rows; hundreds are needed for sound tests."


class DuplicateNameError(DataError):
    __doc__ = summary = "Two columns have one name after trimming and Unicode NFC normalisation"
    default_remedy = "Rename one of the two columns at every site."


class MissingColumnError(DataError):
    __doc__ = summary = "The schema names a column that the file lacks"
    default_remedy = "Add the column, or remove it from schema.toml at every site."


class ExtraColumnError(DataError):
    __doc__ = summary = "The file has a column that the schema lacks"
    default_remedy = 'Remove the column, or list it in schema.toml (kind = "ignore" skips it).'


class UnknownCategoryError(DataError):
    __doc__ = summary = "A value that the schema's categories do not list"
    default_remedy = "Add the category to schema.toml at every site, or correct the value."


class NotNumericError(DataError):
    __doc__ = summary = "Text, or an infinite or implausible number, in a numeric column"
    default_remedy = "Correct the cells, or declare their marker under missing in schema.toml."


class ConstantColumnError(DataError):
    __doc__ = summary = "A column with one value only carries no information"
    default_remedy = "Drop the column, or set allow_constant = true for it in schema.toml."


class MixedTypesError(DataError):
    __doc__ = summary = "The chosen test cannot treat discrete, continuous or mixed columns"
    default_remedy = 'Choose a fitting test, or cut continuous columns: kind = "binned" with edges.'


class SchemaError(DataError):
    __doc__ = summary = "The schema file itself is wrong"
    default_remedy = "Correct it in the schema, or draft one by `cipherdag schema infer FILE`."


class SchemaMismatchError(DataError):
    __doc__ = summary = "Two sites follow different schemas"
    default_remedy = "Give every site the same schema.toml; the site's log names the columns."
