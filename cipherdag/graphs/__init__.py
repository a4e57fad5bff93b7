"""The graph type, the theory of DAGs and CPDAGs, knowledge, metrics and exports.

Where a docstring has no ``Leaks:`` section, nothing leaves: graphs are the coordinator's already.
"""
