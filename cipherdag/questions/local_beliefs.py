"""Question of Fed-CD: the sites' beliefs in every edge, and their weights.

Leaks:
    Weights of a site that does not restrict small counts are exact: their sum tells the rows of
    each experiment. Of other sites it tells about how many have `min_cell_size` of these rows.
"""

import math
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatMatrix, FloatVector
from cipherdag.questions.combined_evidence import MAX_ROWS_LIMIT
from cipherdag.questions.disclosure import Quantity, coarse, sums
from cipherdag.questions.encodings import MAX_VARIABLES, Encoding, unpack_floats
from cipherdag.questions.question import Question

Method = Literal["enco", "sdi", "dcdi-g", "dcdi-dsf"]
InterventionType = Literal["perfect", "imperfect"]

MAX_DCDI_VARIABLES = 100
"""With more variables the matrix exponential by which DCDI counts cycles could overflow."""
LOGIT_BOUND = 32.0
LEAST_WEIGHT = 1e-9
MAX_SHARPNESS = 30.0
COUNT_BITS, WEIGHT_BITS, COARSE_BITS = 30, 40, 10
TRAINING_LIMITS = {
    "epochs": 1_000,
    "fit_steps": 1_000_000,
    "graph_steps": 1_000_000,
    "batch": 65_536,
    "graphs": 65_536,
    "hidden": 4_096,
}


class Training(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hyperparameters of a site's training in one round: its steps, and the sizes of networks.

    Attributes:
        epochs: Times that both stages are run.
        fit_steps: Steps of distribution fitting in an epoch; of DCDI, whose one stage fits both.
        graph_steps: Steps of graph fitting in an epoch; none with DCDI.
        batch: Rows in a step.
        graphs: Graphs drawn in a step of graph fitting.
        hidden: Width of the networks.
        sparsity: Price of an edge, lambda_sparse of Eq. 1.
    """

    epochs: int = 2
    fit_steps: int = 1000
    graph_steps: int = 100
    batch: int = 128
    graphs: int = 100
    hidden: int = 64
    sparsity: float = 0.004

    def __post_init__(self) -> None:
        for name, limit in TRAINING_LIMITS.items():
            if not 1 <= getattr(self, name) <= limit:
                raise ValueError(f"{name} must lie in 1..{limit}")
        if not 0.0 <= self.sparsity <= 1.0:
            raise ValueError("sparsity must lie in 0..1")


class LocalBeliefs(Question, frozen=True, tag="local-beliefs"):
    """Asks, in one round of Fed-CD, for the site's beliefs after training on its rows.

    The answer has the segments of `encodings`: weighted beliefs, their weights, the site's binary
    graph, and 1 to count it. All matrices are read row by row without their diagonals. A site whose
    policy restricts small counts leaves out experiments of fewer rows than its ``min_cell_size``,
    counts the others in steps, and rounds weights and weighted beliefs (ADR 49).

    What is not listed is as in `cipherdag.algorithms.fedcd.algorithm.Averaging`.

    Attributes:
        round: Number of the federated round, from 1.
        seed: Seed of the run; a site derives its own from it, the round, its rows and its key.
        belief: Packed 64-bit floats, (m, p, p): the last round's aggregate, psi (``paper``), or
            the logits gamma and theta (``code``); empty in the first round.
        intervention_type: ``perfect``, or ``imperfect``, which leaves the target its parents and
            only DCDI can take.
        aggregation: ``naive``: weight by rows (Eq. 3), or equally in ``code``; ``proximity``: by
            the reliability of every edge (Eq. 7), or by distance in ``code``.
        prior_weight: lambda_prior of Eq. 2; 0 in ``code``.
        reach: Before the first aggregate no pair is an edge, and every belief counts as 1.
    """

    discloses = (
        *sums(Quantity.BELIEFS, Quantity.BELIEVERS, Quantity.ROWS, Quantity.SITES),
        *coarse(Quantity.WEIGHTS),
    )

    n_variables: int
    round: int
    seed: int
    belief: bytes = b""
    method: Method = "enco"
    intervention_type: InterventionType = "perfect"
    reference: Literal["paper", "code"] = "paper"
    aggregation: Literal["naive", "proximity"] = "proximity"
    start: Literal["expected", "sampled"] = "expected"
    training: Training = Training()
    prior_weight: float = 0.0
    sharpness: float = 2.0
    full_mass: int = 100
    reach: Literal["edges", "tails", "ends"] = "ends"
    decay: float = 0.5
    least_weight: float = 1e-5
    max_rows: int = 1 << 20

    def __post_init__(self) -> None:
        checks = (
            (2 <= self.n_variables <= MAX_VARIABLES, f"n_variables must be 2..{MAX_VARIABLES}"),  # noqa: PLR2004
            (1 <= self.round < 1 << 31, "rounds count from 1"),
            (0 <= self.seed < 1 << 63, "the seed must be a 63-bit number"),
            (0.0 <= self.prior_weight <= 1.0, "prior_weight must lie in 0..1"),
            (0.0 < self.sharpness <= MAX_SHARPNESS, f"sharpness must be 0..{MAX_SHARPNESS}"),
            (1 <= self.full_mass <= MAX_ROWS_LIMIT, "full_mass counts rows from 1"),
            (0.0 < self.decay <= 1.0, "decay must lie in 0..1"),
            (LEAST_WEIGHT <= self.least_weight <= 1.0, "least_weight must lie in 1e-9..1"),
            (2 <= self.max_rows <= MAX_ROWS_LIMIT, f"max_rows must be 2..{MAX_ROWS_LIMIT}"),  # noqa: PLR2004
            (
                self.method == "enco" or self.reference == "paper",
                f"{self.method} has no orientation logits",
            ),
            (
                self.by_dcdi or self.intervention_type == "perfect",
                f"{self.method} takes perfect interventions; dcdi-g and dcdi-dsf take others, too",
            ),
            (
                not self.by_dcdi or self.n_variables <= MAX_DCDI_VARIABLES,
                f"dcdi takes at most {MAX_DCDI_VARIABLES} variables; enco takes more",
            ),
        )
        for holds, message in checks:
            if not holds:
                raise ValueError(message)
        self.belief_arrays()

    @property
    def label(self) -> str:
        return f"beliefs of {self.method.upper()}, {self.aggregation}, round {self.round}"

    @property
    def by_dcdi(self) -> bool:
        """Whether the local method is DCDI, with whichever density."""
        return self.method.startswith("dcdi")

    @property
    def training_steps(self) -> int:
        """Steps that a site computes to answer."""
        training = self.training
        return training.epochs * (
            training.fit_steps + (0 if self.by_dcdi else training.graph_steps)
        )

    @property
    def n_pairs(self) -> int:
        """Ordered pairs of different variables, p (p - 1)."""
        return self.n_variables * (self.n_variables - 1)

    @property
    def n_matrices(self) -> int:
        """Matrices exchanged: psi, or gamma and theta."""
        return 1 if self.reference == "paper" else 2

    @property
    def n_weights(self) -> int:
        """Weights of a site: one for each pair, or one for all."""
        return self.n_pairs if self.aggregation == "proximity" else 1

    @property
    def coarse_bits(self) -> int:
        """Fractional bits of weighted beliefs at a site that restricts small counts.

        A belief of the smallest weight keeps `COARSE_BITS` of them.
        """
        return COARSE_BITS + math.ceil(-math.log2(self._smallest_weight))

    @property
    def coarse_weight(self) -> float:
        """The smallest weight, rounded to `coarse_bits`."""
        unit = 2.0**-self.coarse_bits
        return round(self._smallest_weight / unit) * unit

    @property
    def _smallest_weight(self) -> float:
        if self.aggregation == "naive":
            return 1.0
        return math.exp(-self.sharpness) if self.reference == "paper" else self.least_weight

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        # the softmax weights of Eq. 7 lie in [exp(-beta), 1] after the common offset; their
        # smallest sum keeps a relative error below 2**-40
        bound = 1.0 if self.reference == "paper" else LOGIT_BOUND
        weight, bits = 1.0, WEIGHT_BITS
        naive = self.aggregation == "naive"
        weighed = sums(Quantity.ROWS) if naive else coarse(Quantity.WEIGHTS)
        if naive and self.reference == "paper":
            weight, bits = float(self.max_rows), COUNT_BITS
        elif self.aggregation == "proximity":
            bits += math.ceil(-math.log2(self._smallest_weight))
        return (
            Encoding(
                self.n_matrices * self.n_pairs,
                bound * weight,
                sums(Quantity.BELIEFS),
                resolution_bits=bits,
                signed=self.reference == "code",
            ),
            Encoding(self.n_weights, weight, weighed, resolution_bits=bits),
            Encoding(self.n_pairs, 1.0, sums(Quantity.BELIEVERS)),
            Encoding(1, 1.0, sums(Quantity.SITES)),
        )

    def belief_arrays(self) -> FloatMatrix | None:
        """The last aggregate, shape (n_matrices, p, p); None in the first round."""
        if not self.belief:
            return None
        shape = (self.n_matrices, self.n_variables, self.n_variables)
        if len(self.belief) != 8 * math.prod(shape):
            raise ValueError("the packed belief does not have the length n_variables implies")
        arrays = unpack_floats(self.belief).reshape(shape)
        low, high = (0.0, 1.0) if self.reference == "paper" else (-LOGIT_BOUND, LOGIT_BOUND)
        if not ((arrays >= low) & (arrays <= high)).all():  # NaN fails both
            raise ValueError("a belief lies outside its range")
        return arrays


def off_diagonal(matrices: FloatMatrix) -> FloatVector:
    """All entries but the diagonals of matrices of shape (..., p, p), row by row, as one vector."""
    p = matrices.shape[-1]
    return matrices[..., ~np.eye(p, dtype=bool)].ravel()


def from_off_diagonal(values: FloatVector, n_variables: int) -> FloatMatrix:
    """Inverse of `off_diagonal`: shape (m, p, p) with zero diagonals."""
    matrices = np.zeros((len(values) // (n_variables * (n_variables - 1)), *(n_variables,) * 2))
    matrices[:, ~np.eye(n_variables, dtype=bool)] = values.reshape(len(matrices), -1)
    return matrices


def edge_probability(arrays: FloatMatrix) -> FloatMatrix:
    """Belief in every edge, shape (p, p), from psi, or from gamma and theta, (m, p, p)."""
    if len(arrays) == 1:
        probability: FloatMatrix = np.array(arrays[0])
    else:
        probability = _sigmoid(arrays[0]) * _sigmoid(arrays[1])
    np.fill_diagonal(probability, 0.0)
    return probability


def binary_graph(arrays: FloatMatrix) -> NDArray[np.bool_]:
    """Which edges are believed in, shape (p, p): psi > 0.5, or gamma > 0 and theta > 0."""
    middle = 0.5 if len(arrays) == 1 else 0.0
    graph: NDArray[np.bool_] = np.all(arrays > middle, axis=0)
    np.fill_diagonal(graph, val=False)
    return graph


def _sigmoid(values: FloatMatrix) -> FloatMatrix:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * values)))
