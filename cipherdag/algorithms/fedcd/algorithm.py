"""Fed-CD: neural beliefs from interventional data (Abyaneh et al., arXiv 2211.03846, 2023).

In every round each site trains a local causal discovery method that starts from the last aggregated
belief; the beliefs are averaged, weighted by rows (naive) or by how close the site's interventions
are to each edge (proximity). The softmax average is the ratio of two sums over sites, so nobody but
a site knows what it intervened on. The sites' half is `sites.compute.beliefs`.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import ClassVar, Literal

import numpy as np

from cipherdag.algorithms.algorithm import Algorithm, Facts, Published, Reading
from cipherdag.algorithms.fedcd.report import (
    FedCDOutcome,
    concluded,
    in_likeliest_order,
    reported,
    without_cycles,
)
from cipherdag.algorithms.parameters import Range, preset, require, settings, within
from cipherdag.arrays import BoolMatrix, FloatMatrix, FloatVector
from cipherdag.errors import ParameterError
from cipherdag.findings.finding import Report
from cipherdag.findings.graph import LearntGraph
from cipherdag.questions.disclosure import Disclosure, Quantity, coarse, joined, sums
from cipherdag.questions.encodings import pack_floats, require_possible, segments
from cipherdag.questions.local_beliefs import (
    LEAST_WEIGHT,
    LOGIT_BOUND,
    TRAINING_LIMITS,
    InterventionType,
    LocalBeliefs,
    Method,
    Training,
    binary_graph,
    edge_probability,
    from_off_diagonal,
)
from cipherdag.questions.question import Asking

ROUNDING = 2.0**-20

VARIED = frozenset(Training.__struct_fields__) | {"aggregation", "rounds"}
PROPORTIONAL = frozenset({"full_mass"})
TRAINED = {name: Range(1, limit) for name, limit in TRAINING_LIMITS.items()}
TRAINED["sparsity"] = Range(0.0, 1.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Averaging:
    """How beliefs are averaged from round to round; the usual ones are those of this package.

    Attributes:
        aggregation: How the sites' beliefs are averaged: by ``proximity`` (Eq. 7) or ``naive``
            (Eq. 3).
        reference: Whether to follow the paper or its published program: ``paper``: probabilities
            are exchanged, and the last belief enters the training as its start and as the prior
            term of Eq. 2; ``code``: logits are averaged and trained from, without a prior term, and
            weighed by distance.
        prior_weight: Weight of the last belief in training: lambda_prior of Eq. 2; the paper gives
            no value.
        start: What training starts from: psi (``expected``) or a draw of Ber(psi) (``sampled``, the
            paper's words).
        sharpness: Temperature of the proximity weights: beta of Eq. 7, which the paper finds by
            grid search; 2 is that of its example.
        full_mass: Rows of an intervention on one variable from which on its mass is 1; mass is
            proportional to rows, as published, where no intervention has more.
        reach: Which pairs an intervention makes reliable: downstream ``edges`` (the paper, which
            leaves other pairs open), all pairs whose ``tails`` its mass reaches, or also the pairs
            whose heads were intervened on (``ends``): these sites see that the tail stays put.
        decay: Factor of the weight per edge on the way from an intervention, with ``code`` only; 1,
            the program's in its unbalanced runs, leaves distance out.
        least_weight: Weight of a pair with no intervention upstream, with ``code`` only.
        every_round: Whether all rounds are run; else a run stops once all sites have the same graph
            and it did not change.
    """

    aggregation: Literal["proximity", "naive"] = "proximity"
    reference: Literal["paper", "code"] = "paper"
    prior_weight: float = 0.001
    start: Literal["expected", "sampled"] = "expected"
    sharpness: float = 2.0
    full_mass: int = 100
    reach: Literal["ends", "tails", "edges"] = "ends"
    decay: float = within(0.5, 0.0, 1.0, above=True)
    least_weight: float = within(1e-5, LEAST_WEIGHT, 1.0)
    every_round: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class FedCD(Algorithm[FedCDOutcome, LearntGraph]):
    """Fed-CD's parameters; `ask` is the algorithm.

    Attributes:
        method: What each site learns with: ``enco``; ``sdi``, which has one logit per edge; or
            DCDI, whose graphs are made acyclic, with numbers that are normal (``dcdi-g``) or follow
            a deep sigmoidal flow (``dcdi-dsf``). The published program takes ``enco``, since the
            others have no orientation logits.
        intervention_type: What an experiment does to its target: it replaces the mechanism
            (``perfect``), or changes it and leaves the parents (``imperfect``), with DCDI only.
            Which variables a row's experiment targets must be known.
        rounds: Most federated rounds.
        training: How long a site trains in a round, and how large its networks are.
        averaging: How beliefs are averaged from round to round.

    Leaks:
        With ``proximity`` the sum of weights tells how many sites intervened near an edge, and how
        near, but not which. Sites that restrict small counts round this to steps. Weights of others
        are exact: every site's rows of every experiment follow, though not whose they are.
    """

    name: ClassVar[str] = "fedcd"
    title: ClassVar[str] = "Fed-CD"
    use: ClassVar[str] = "Learn a causal graph from rows with recorded interventions."
    usual: ClassVar[tuple[str, ...] | None] = ("method", "rounds", "intervention_type")
    reads: ClassVar[frozenset[Reading]] = frozenset({"interventions", "relations"})
    published: ClassVar[Mapping[str, Published]] = {
        "paper": Published(
            {"start": "sampled", "reach": "edges", "every_round": True},
            VARIED | PROPORTIONAL | {"method", "prior_weight", "sharpness"},
            needed=PROPORTIONAL,
        ),
        "code": Published(
            {"reference": "code", "batch": 64, "every_round": True},
            VARIED | {"decay", "least_weight"},
        ),
    }

    retired: ClassVar[dict[str, object]] = {"consensus": 0.0, "max_rows": 1 << 20}

    method: Method = "enco"
    intervention_type: InterventionType = "perfect"
    rounds: int = within(10, 1)
    training: Training = settings(Training(), TRAINED)
    averaging: Averaging = preset(Averaging())

    def check(self) -> None:
        self._question(2, 1, 0, None)

    def conclude(self, outcome: FedCDOutcome, facts: Facts) -> LearntGraph:
        return concluded(outcome, facts.names)

    def disclosures(self) -> tuple[Disclosure, ...]:
        naive = self.averaging.aggregation == "naive"
        weights = sums(Quantity.ROWS) if naive else coarse(Quantity.WEIGHTS)
        return joined(sums(Quantity.BELIEFS, Quantity.BELIEVERS, Quantity.SITES), weights)

    @property
    def most_rounds(self) -> int:
        """As declared; the sites may agree before."""
        return self.rounds

    def report(self, conclusion: LearntGraph) -> Report:
        return reported(conclusion)

    def ask(self, facts: Facts) -> Asking[FedCDOutcome]:
        """The run as a generator: yields questions, receives sums, returns a `FedCDOutcome`.

        One question per round; values in each: about 3 p**2 with ``proximity``, 2 p**2 with
        ``naive``, p**2 more with ``code``. ParameterError for fewer than two variables, more than
        DCDI takes, or a seed that is no 63-bit number.
        """
        n_variables, seed = facts.n_variables, facts.seed
        require(n_variables > 1, "a graph needs two variables")
        require(0 <= seed < 1 << 63, "the seed must be a 63-bit number")
        last: FloatMatrix | None = None
        graph: BoolMatrix | None = None
        entropies: list[float] = []
        agreed = False
        while len(entropies) < self.rounds and not agreed:
            question = self._question(n_variables, len(entropies) + 1, seed, last)
            sums = yield question
            last, entropy = aggregate(question, sums)
            entropies.append(entropy)
            new = binary_graph(last)
            same = graph is not None and np.array_equal(new, graph)
            agreed = same and entropy == 0.0 and not self.averaging.every_round
            graph = new
        assert last is not None, "there is at least one round"
        assert graph is not None, "there is at least one round"
        belief = edge_probability(last)
        if self.averaging.reference == "code":
            arcs, cut = in_likeliest_order(graph, belief, last[1])
        else:
            arcs, cut = without_cycles(graph, belief)
        return FedCDOutcome(
            arcs=arcs, belief=belief, cut=cut, entropies=tuple(entropies), agreed=agreed
        )

    def _question(
        self, n_variables: int, number: int, seed: int, last: FloatMatrix | None
    ) -> LocalBeliefs:
        shared = asdict(self.averaging)
        del shared["every_round"]
        if self.averaging.reference == "code":
            shared["prior_weight"] = 0.0
        try:
            return LocalBeliefs(
                n_variables=n_variables,
                round=number,
                seed=seed,
                belief=b"" if last is None else pack_floats(last),
                method=self.method,
                intervention_type=self.intervention_type,
                training=self.training,
                **shared,
            )
        except ValueError as error:
            raise ParameterError(str(error)) from error


def aggregate(question: LocalBeliefs, sums: FloatVector) -> tuple[FloatMatrix, float]:
    """The aggregated belief (Eq. 3 or 7) and the average edge entropy (appendix A.3).

    The belief is psi, or gamma and an antisymmetric theta, shape (m, p, p); the entropy is that of
    the sites' votes in bits, the mean over all ordered pairs. AggregateRangeError where the sums
    contradict each other.
    """
    weighted, weights, votes, count = segments(question.encodings, sums)
    somebody = count[0] > 0 and (weights > 0).all()
    require_possible(question.label, "beliefs of nobody", holds=somebody)
    per_pair = np.broadcast_to(weights, question.n_pairs)
    mean = weighted / np.tile(per_pair, question.n_matrices)
    matrices = from_off_diagonal(mean, question.n_variables)
    if question.reference == "code" and question.aggregation == "proximity":
        matrices[1] = antisymmetric(matrices[1])
    low, high = (0.0, 1.0) if question.reference == "paper" else (-LOGIT_BOUND, LOGIT_BOUND)
    # the quotient of two rounded sums may lie a grid step outside
    inside = (abs(matrices) <= high * (1.0 + ROUNDING)).all()
    require_possible(question.label, "a belief beyond its bound", holds=inside)
    return np.clip(matrices, low, high), edge_entropy(votes / count[0])


def edge_entropy(share: FloatVector) -> float:
    """Mean binary entropy in bits of the shares of sites that have an edge."""
    inner = share[(share > 0) & (share < 1)]
    entropy = -(inner * np.log2(inner) + (1 - inner) * np.log2(1 - inner))
    return float(entropy.sum() / len(share))


def antisymmetric(theta: FloatMatrix) -> FloatMatrix:
    """The published program's repair: the larger magnitude of a pair, the upper entry's sign."""
    size = np.maximum(np.abs(theta), np.abs(theta.T))
    upper = np.triu(np.where(theta >= 0, size, -size), 1)
    return np.asarray(upper - upper.T)
