"""The graph type, the theory of DAGs and CPDAGs, knowledge, metrics and exports."""
