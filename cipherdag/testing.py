"""Laws that every algorithm keeps, for whoever writes one: `check_algorithm`.

from cipherdag.testing import check_algorithm

def test_my_algorithm():
    check_algorithm(MyAlgorithm(), {"north": north, "south": south, "west": west})
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cipherdag.algorithms.algorithm import Algorithm, Facts
from cipherdag.algorithms.parameters import grouped, options_of, parameters_of
from cipherdag.arrays import FloatVector
from cipherdag.errors import ParameterError, PolicyRefusedError
from cipherdag.federation.simulated import Federation
from cipherdag.protocol.messages import content_digest
from cipherdag.questions.question import Question
from cipherdag.results.folder import verify_folder
from cipherdag.results.run import Run
from cipherdag.results.sentences import disclosed_by
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.policy.policy import QUESTION_KINDS, Policy
from cipherdag.sites.table.schema import Schema

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """An algorithm, and data of three or more sites that it can be run on.

    Attributes:
        algorithm: The algorithm, set so that a run takes seconds.
        data: A DataFrame for every site.
        schema: Of all sites; inferred from all data together if None.
        labels: Columns that are labels, where it reads labels.
        interventions: Column that names interventions, where it reads them.
    """

    algorithm: Algorithm[Any, Any]
    data: Mapping[str, pd.DataFrame]
    schema: Schema | None = None
    labels: tuple[str, ...] = ()
    interventions: str | None = None

    def federation(self, **changes: Any) -> Federation:
        """The sites, which allow the algorithm all that it may ask."""
        policy = Policy(
            algorithms=frozenset({self.algorithm.name}),
            questions=QUESTION_KINDS,
            allow_unprotected=True,
            min_cell_size=0,
        )
        settings: dict[str, Any] = {
            "schema": self.schema or infer_schema(list(self.data.values()), min_cell_size=0),
            "labels": self.labels,
            "interventions": self.interventions,
            "policy": policy,
            "device": "cpu",
        }
        data = changes.pop("data", self.data)
        return Federation.simulate(data, **(settings | changes))

    def run(self, **changes: Any) -> Run[Any]:
        """One run over `federation`."""
        return self.federation(**changes).run(self.algorithm, seed=1)


def check_algorithm(
    algorithm: Algorithm[Any, Any], data: Mapping[str, pd.DataFrame], **settings: Any
) -> None:
    """Check every law of `LAWS`; see `Trial` for the arguments.

    Raises:
        AssertionError: A law is broken; its name and the reason stand in the message.
    """
    trial = Trial(algorithm=algorithm, data=data, **settings)
    for law in LAWS:
        try:
            law(trial)
        except AssertionError as error:
            raise AssertionError(f"{law.__name__}: {error}") from error


def says_what_it_is_and_leaks(trial: Trial) -> None:
    """The class has a name, a title, a word for every parameter, and a ``Leaks:`` section."""
    own = type(trial.algorithm)
    assert own.name.islower(), "its name is in small letters"
    assert own.title, "it has no title"
    assert "Leaks:" in (own.__doc__ or ""), "its docstring has no Leaks: section"
    silent = [name for name, known in options_of(own).items() if not known.help]
    assert not silent, f"its docstring says nothing of {', '.join(silent)}"


def discloses_with_every_choice(trial: Trial) -> None:
    """Whatever is chosen, it declares what a run may disclose."""
    own: Any = trial.algorithm
    for name, known in options_of(type(trial.algorithm)).items():
        for choice in known.choices:
            with suppress(ParameterError):
                said = replace(own, **grouped(type(own), {name: choice})).disclosures()
                assert said, f"nothing with {name}={choice}"


def parameters_survive_being_written(trial: Trial) -> None:
    """What a saved run says of the parameters makes the same algorithm again."""
    own = type(trial.algorithm)
    written = {
        name: known.read(known.written(getattr(trial.algorithm, name)))
        for name, known in parameters_of(own).items()
    }
    assert own(**written) == trial.algorithm, f"{written} is another algorithm"


def sites_refuse_it_unless_their_policy_names_it(trial: Trial) -> None:
    """A policy that names other algorithms lets no round begin."""
    policy = Policy(algorithms=frozenset({"another"}), questions=QUESTION_KINDS)
    try:
        trial.run(policy=policy)
    except PolicyRefusedError:
        return
    raise AssertionError("sites answered although their policies do not name it")


def protections_agree_to_the_last_bit(trial: Trial) -> None:
    """Every protection gives the same sums and the same conclusion."""
    plain, masked = trial.run(protection="none"), trial.run(protection="masking")
    assert _sums(plain) == _sums(masked), "masking gives other sums than no protection"
    assert _found(plain) == _found(masked), "masking gives another conclusion"


def order_changes_nothing(trial: Trial) -> None:
    """Neither that of the sites nor that of the columns."""
    first = _found(trial.run())
    turned = dict(reversed(list(trial.data.items())))
    assert _found(trial.run(data=turned)) == first, "the order of the sites matters"
    mirrored = {name: own[own.columns[::-1]] for name, own in trial.data.items()}
    assert _found(trial.run(data=mirrored)) == first, "the order of the columns matters"


def opens_only_what_it_declares(trial: Trial) -> None:
    """A question declares all that it opens; its kind and the algorithm declare that, too."""
    facts, _, heard = _heard(trial)
    for part in (part for question, _ in heard for part in question.parts):
        silent = [each for each in part.encodings if each.length and not each.discloses]
        assert not silent, f"nobody declares some of {part.label}"
        for who, declared in (
            (f"kind {part.kind}", disclosed_by(part.kind)),
            (trial.algorithm.title, trial.algorithm.disclosed(facts.visits)),
        ):
            undeclared = sorted({each.quantity for each in {*part.disclosures} - {*declared}})
            assert not undeclared, f"{who} does not declare {'; '.join(undeclared)}"


def sums_alone_decide(trial: Trial) -> None:
    """From the sums alone the same questions and the same outcome follow: nothing else leaks in."""
    facts, outcome, heard = _heard(trial)
    again = trial.algorithm.ask(facts)
    answer: Any = None
    for number, (question, sums) in enumerate(heard, start=1):
        same = content_digest(again.send(answer)) == content_digest(question)
        assert same, f"question {number} is another one"
        answer = sums
    try:
        again.send(answer)
    except StopIteration as finished:
        found, known = (trial.algorithm.conclude(own, facts) for own in (finished.value, outcome))
        assert _plain(found) == _plain(known), "the same sums lead to another conclusion"
    else:
        raise AssertionError("it asks more questions than before")


def a_saved_run_verifies_and_loads(trial: Trial) -> None:
    """The folder's ledgers verify, it reads back the same, and the report tells what was opened."""
    result = trial.run()
    with tempfile.TemporaryDirectory() as folder:
        verify_folder(result.save(Path(folder) / "result"))
        loaded = Run.load(Path(folder) / "result", made_by=trial.algorithm)
    assert loaded.to_dict() == result.to_dict(), "the saved result reads back differently"
    page = loaded.page()
    for sentence in loaded.disclosures:
        assert _escaped(sentence) in page, f"the report does not say: {sentence}"


LAWS: tuple[Callable[[Trial], None], ...] = (
    says_what_it_is_and_leaks,
    discloses_with_every_choice,
    parameters_survive_being_written,
    sites_refuse_it_unless_their_policy_names_it,
    protections_agree_to_the_last_bit,
    order_changes_nothing,
    opens_only_what_it_declares,
    sums_alone_decide,
    a_saved_run_verifies_and_loads,
)
"""Every law by itself, for a test that is parametrised over them."""


def _heard(trial: Trial) -> tuple[Facts, Any, list[tuple[Question, FloatVector]]]:
    """What a run knew before, its outcome, and its questions with their sums."""
    heard: list[tuple[Question, FloatVector]] = []

    def listening(facts: Facts) -> Generator[Question, FloatVector, tuple[Facts, Any]]:
        asking = trial.algorithm.ask(facts)
        answer: Any = None
        try:
            while True:
                question = asking.send(answer)
                answer = yield question
                heard.append((question, answer))
        except StopIteration as finished:
            return facts, finished.value

    return (*trial.federation().ask(trial.algorithm.name, listening, seed=1).outcome, heard)


def _sums(run: Run[Any]) -> list[str]:
    return [report.aggregate for report in run.rounds]


def _found(run: Run[Any]) -> dict[str, Any]:
    shared = {"sites", "seconds", "bytes_sent_per_site", "round_reports", "ledgers", "protection"}
    return {name: value for name, value in run.to_dict().items() if name not in shared}


def _plain(conclusion: Any) -> dict[str, str]:
    return {own.name: repr(getattr(conclusion, own.name)) for own in fields(conclusion)}


def _escaped(text: str) -> str:
    from markupsafe import escape

    return str(escape(text))
