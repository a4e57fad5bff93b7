"""A site's own result of a run: the program gone through again over the sums that it checked."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from cipherdag.arrays import FloatVector
from cipherdag.errors import DataError, OutputError, UnreadableRunError
from cipherdag.findings.doubts import THIS_SITE_DETAIL
from cipherdag.program.program import installed_program, plan_facts
from cipherdag.program.run import FinishedRun
from cipherdag.program.versions import computed_with
from cipherdag.protocol.progress import RoundReport
from cipherdag.questions.question import Question
from cipherdag.questions.site_differences import SiteDifferences
from cipherdag.questions.threshold import Suppressed
from cipherdag.results.run import Run, result_of
from cipherdag.sites.answers.column_answers import LEAST_STRATUM
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.descriptions.site_comparison import site_outliers
from cipherdag.sites.record.ledger import CLOSED_RUN, Ledger, read_releases
from cipherdag.sites.record.run_record import RunRecord
from cipherdag.sites.study.site_folder import SiteFolder
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import load_table

log = logging.getLogger("cipherdag.site")

ENDED_RUNS = "Name a run that ended: `cipherdag site status` says how each did."


def site_result(site: SiteFolder, session: str = "") -> Run[Any]:
    """The result of a run by the site's own names.

    The session is known by its first digits; it is the run that began last if these are empty.

    Raises:
        ParameterError: This is not how a session is named.
        OutputError: There is no such run, it did not come to its end, or its sums were changed
            since: the ledger holds their digest.
        LedgerError: The ledger was altered.
        ProgramMismatchError: The program was changed since.
        SchemaError: The schema cannot be read.
    """
    record = RunRecord.latest(site.runs, session)
    plan, sums = record.read()
    name, schema = site.settings().name, Schema.load(site.schema_path(site.settings()))
    ledger = Ledger(name, site.identity(), path=site.ledger_path)
    left = [
        release for release in read_releases(ledger.lines) if release.session == plan.session.hex()
    ]
    closed = [release.digest for release in left if release.kind == CLOSED_RUN]
    if closed and record.digest.hex() not in closed:
        raise UnreadableRunError(f"{record.folder} was changed: the ledger has other sums")
    facts = plan_facts(plan, len(schema.names), schema.label_positions, schema.determined)
    program = installed_program(plan, facts)
    question, rounds = program.replay.advance(1, None), []
    compared: list[tuple[SiteDifferences, FloatVector]] = []
    for step, opened_sum in enumerate(sums, start=2):
        if question is None:
            raise UnreadableRunError("the record holds more sums than the plan asks for")
        rounds.append(
            RoundReport.of(
                question,
                opened_sum.array,
                number=opened_sum.number,
                seconds=0.0,
                bytes_sent_per_site={},
                n_sites=len(opened_sum.participants),
                n_cohort=len(plan.cohort),
            )
        )
        compared += _compared(question, opened_sum.array)
        question = program.replay.advance(step, opened_sum.array, len(opened_sum.participants))
    if question is not None or program.algorithm is None or not closed:
        raise OutputError(f"run {plan.session.hex()[:8]} did not end", remedy=ENDED_RUNS)
    done = FinishedRun(
        outcome=program.replay.outcome,
        facts=replace(facts, names=schema.names),
        rounds=tuple(rounds),
        dropouts=(),
        bytes_sent_per_site={name: sum(release.bytes for release in left)},
        heads={name: ledger.head},
        seconds=0.0,
        keys=plan.keys_sentence,
    )
    run = result_of(
        done,
        program.algorithm,
        protection=plan.protection,
        parameters=plan.parameters,
        identifiers={name: str(n) for n, name in enumerate(schema.names, start=1)},
        sites=plan.names,
        versions=computed_with(),
        schema=schema.dumps(),
    )
    if compared and (outlying := _standing_out(site, schema, compared)):
        details = {**run.finding.details, THIS_SITE_DETAIL: outlying}
        return replace(run, finding=replace(run.finding, details=details))
    return run


def _compared(
    question: Question, sums: FloatVector
) -> Iterator[tuple[SiteDifferences, FloatVector]]:
    """The comparison of sites in a round, and its sums."""
    for part, part_sums in question.split(sums):
        inner = part.question if isinstance(part, Suppressed) else part
        if isinstance(inner, SiteDifferences):
            yield inner, part_sums


def _standing_out(
    site: SiteFolder, schema: Schema, compared: list[tuple[SiteDifferences, FloatVector]]
) -> list[tuple[str, str]]:
    """Variables by which this site stands out, told from its data as they are now."""
    settings, min_cell_size = site.settings(), site.policy().min_cell_size
    try:
        source, folder = site.data_source(settings), site.path
        table = load_table(source, schema, site=settings.name, folder=folder)
    except DataError as error:
        log.warning("not compared with the other sites: %s", error.message)
        return []
    view = SiteView.of_table(
        table, min_cell_size=min_cell_size, device="cpu", keyed=site.identity().draw_key()
    )
    return [
        line
        for question, sums in compared
        for line in site_outliers(
            question,
            sums,
            view.disclosable_column,
            view.cell_keys,
            raw=view.raw_column,
            min_cell_size=max(min_cell_size, LEAST_STRATUM),
            columns=schema.variables,
        )
    ]
