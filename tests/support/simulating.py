"""Federations whose sites answer any kind of question, and programs driven over their sites."""

from driving import drive

from cipherdag import Federation, Policy
from cipherdag.algorithms.algorithm import Facts
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.policy.policy import QUESTION_KINDS


def federated(data, least=0, **settings):
    """Sites of these tables that answer any kind of question."""
    policy = Policy(min_cell_size=least, questions=QUESTION_KINDS)
    return Federation.simulate(data, policy=policy, device="cpu", **settings)


def view_of(table, least=0):
    """What a site of this table answers from."""
    return SiteView.of_table(table, min_cell_size=least, device="cpu")


def views_of(federation, least=0):
    return [view_of(site.table, least) for site in federation.sites]


def driven(algorithm, federation, *, least=0, **facts):
    """What a program comes to over plain sums of a federation's sites, and what it asked."""
    sites, names = views_of(federation, least), federation.sites[0].table.names
    told = Facts(len(names), len(sites), **{"names": names, "min_contributors": 3} | facts)
    return drive(algorithm.ask(told), sites)
