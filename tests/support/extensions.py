"""Another way to make a DAG of a graph, which tests hold against those of the package."""

from cipherdag.graphs.dags import dag_of, matrix_of
from cipherdag.graphs.endpoints import checked_arcs
from cipherdag.graphs.equivalence import extension


def consistent_extension(arcs):
    """A DAG with the skeleton, the directed edges and the unshielded colliders; or None."""
    graph = checked_arcs(arcs)
    dag = extension(dag_of(graph & ~graph.T), dag_of(graph & graph.T))
    return None if dag is None else matrix_of(dag)
