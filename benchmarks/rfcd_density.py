"""How RFcd-B's normalised SHD depends on the density of the true graph; the paper is silent on it.

python benchmarks/rfcd_density.py --out benchmarks/results/rfcd_density.json
"""

from __future__ import annotations

import statistics

from measuring import parser, write_report
from polynomial_data import experiment
from rfcd import against, driven, ges_union

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.rfcd.algorithm import RFcd, Searching
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.orientation import cpdag_of
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.scores.scores import GaussianBic, LocalScores

D, SITES, ROWS = 10, 5, 1000
NEIGHBOURS = (1.0, 1.5, 2.0, 3.0)
SEARCHES = {"beam 10": RFcd(searching=Searching(search="beam")), "classes": RFcd()}


def main() -> None:
    arguments = parse()
    rows = []
    for neighbours in NEIGHBOURS:
        found = {}
        for seed in range(arguments.seeds):
            for name, share in measured(neighbours, seed).items():
                found.setdefault(name, []).append(share)
        rows.append(
            {"neighbours": neighbours}
            | {name: statistics.mean(own) for name, own in found.items()}
            | {"deviation": {name: statistics.stdev(own) for name, own in found.items()}}
        )
        shown = {k: round(v, 2) for k, v in rows[-1].items() if k != "deviation"}
        print(shown, flush=True)
    figures = {"d": D, "sites": SITES, "seeds": arguments.seeds, "runs": rows}
    write_report(arguments.out, "rfcd_density", figures)


def measured(neighbours, seed):
    """Normalised SHD of every method, and the share of pairs that have a true edge."""
    noise = "gaussian" if seed % 2 == 0 else "uniform"
    drawn = experiment(
        D, SITES, ROWS, seed, noise=noise, interventions=False, neighbours=neighbours
    )
    names = [f"v{k}" for k in range(D)]
    truth = CausalGraph.from_arcs(names, cpdag_of(drawn.dag))
    scores = [LocalScores(GaussianBic(own, device="cpu")) for own in drawn.sites]
    sites = [
        SiteView(None, None, (0,) * D, make_scores=lambda _spec, own=own: own) for own in scores
    ]
    pairs = D * (D - 1) / 2
    found = {
        name: against(truth, names, driven(search.ask(Facts(D, SITES)), sites).arcs)[0] / pairs
        for name, search in SEARCHES.items()
    }
    found["GES union"] = against(truth, names, ges_union(drawn.sites, scores, {}))[0] / pairs
    found["true edges"] = float(drawn.dag.sum()) / pairs
    return found


def parse():
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=10)
    return options.parse_args()


if __name__ == "__main__":
    main()
