"""A user's program with every algorithm: mypy holds that findings are typed, nothing runs it."""
# ruff: noqa: F403, F405

from typing import Any, assert_type

import pandas as pd

from cipherdag import *

federation = Federation.simulate({"north": "north.csv", "south": "south.csv"})

by_tests = federation.run(FedPC(alpha=0.01), seed=1)
assert_type(by_tests, Run[LearntGraph])
assert_type(by_tests.graph, CausalGraph)
assert_type(by_tests.finding.graph, CausalGraph)
assert_type(by_tests.table("edges"), pd.DataFrame)
by_tests.finding.compare(by_tests.finding.dag)
assert_type(federation.run(RFcd()).finding, LearntGraph)
assert_type(federation.run(RFcd()).graph, CausalGraph)
assert_type(federation.run(FedCD()).finding, LearntGraph)
assert_type(federation.run(FedCD()).graph, CausalGraph)
assert_type(federation.run(FedBOSS()).finding, LearntGraph)
assert_type(federation.run(FedBOSS()).graph, CausalGraph)

hidden = federation.run(FedFCI())
assert_type(hidden, Run[LearntPAG])
assert_type(hidden.graph, PartialMixedGraph)
assert_type(hidden.finding.graph, PartialMixedGraph)

features = federation.run(FedCMFS())
assert_type(features, Run[SelectedFeatures])
str(features.graph)  # type: ignore[misc]  # features are no graph
assert_type(features.finding.union, tuple[str, ...])

described = federation.run(Describe())
assert_type(described, Run[Description])
assert_type(described.finding.rows, int)

effect = federation.run(Effect(treatment="drug", outcome="score", adjust="age"))
assert_type(effect, Run[EstimatedEffect])
assert_type(effect.finding.interval, tuple[float, float])

survival = federation.run(Survival(time="months", event="died"))
assert_type(survival, Run[SurvivalAnalysis])
assert_type(survival.finding.edges, tuple[float, ...])

checked = federation.run(GraphCheck(by_tests.finding.dag))
assert_type(checked, Run[CheckedGraph])
assert_type(checked.finding.alpha, float)

connected = Federation.connect("coordinator", purpose="to learn what causes what")
assert_type(connected.run(FedPC()), Run[LearntGraph])
assert_type(connected.run("fedpc"), Run[Any])
assert_type(federation.run("fedpc"), Run[Any])
assert_type(Run.load("result", LearntPAG), Run[LearntPAG])
assert_type(Run.load("result", LearntPAG).graph, PartialMixedGraph)
assert_type(Run.load("result"), Run[Any])
