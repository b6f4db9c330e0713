"""Terms that pages of whole studies use, each with what it means: `terms_section`. The navigation at the top of a page leads to it.

What is measured has its words and letters beside the system (`sets.system`); here is what reports say of it.
"""

from __future__ import annotations

from weir_lab.report.page.blocks import Section, Text

__all__ = ["TERMS", "terms_section"]

TERMS = "terms"
_TERMS = (
    (
        "S1 to S5",
        "five earlier studies of memcached proxies, which this laboratory runs again; a number behind names a section",
    ),
    ("sweep", "all runs of one study file: every combination of the levels of its factors, some times over"),
    (
        "cell",
        "one such combination; headline cells are those that a night runs first, because conclusions rest on them",
    ),
    (
        "block",
        "runs that were made one after the other, at most one of each cell, in random order; what changes from hour to hour is the same "
        "for all of them. The first block has all cells, later ones those that tell most",
    ),
    ("attempt", "a run that was begun; it counts if its records pass the gates, and is tried again if they do not"),
    (
        "gate",
        "a rule, fixed before the data, that a run passes or is left out: no errors, all records, a quiet machine",
    ),
    (
        "flag",
        "what a reader should know of a run that counts: a generator that was busy, a law that is a little off, a warm-up that was long",
    ),
    (
        "yardstick",
        "a computation that is always the same, timed beside each run: how fast the machine was then; “at equal speed” takes it out",
    ),
    ("pace", "how much is run: quick in minutes, night in one night, full as the study was"),
    (
        "netns",
        "a testbed on one machine: a network namespace for each machine of the study, with links and delays of their own",
    ),
    ("delay device", "the program that holds packets back for as long as they would be on their way"),
    (
        "CPU quota",
        "how much CPU time a machine of the testbed may use in each period; above it, it is stopped until the next",
    ),
    (
        "engine",
        "how a proxy works inside: pool (one queue, workers), split (readers and a writer for each server), event (loops)",
    ),
    (
        "clients per thread",
        "clients are that number times the threads of a client machine times the client machines; a client is a connection",
    ),
    ("crew", "workers that are there from the start (fixed), or as many as there is work for"),
    ("modulo placement", "a key's server is the remainder of its hash divided by the number of servers"),
    ("plateau", "throughput of the levels that reach the most but for a margin, 5 % unless a set says otherwise"),
    ("maximum", "of a curve over clients: the fewest clients shown to reach the plateau, and its throughput"),
    ("knee", "where throughput stops growing with the clients, between two levels of the data"),
    ("station", "where requests wait to be served: a link, a thread, a CPU quota, the workers of a proxy"),
    ("held by them", "workers that are busy only because each waits for a full station behind them"),
    ("interval", "of 95 %: in 19 of 20 studies made so, it has the true value"),
    (
        "change",
        "of one cell against another: of means of logarithms, over the blocks that have both; the quotient of two printed means may differ "
        "from it by some per cent",
    ),
    ("MSER-5", "a rule that finds where the warm-up of a run or a trace ends"),
    (
        "spike, burst",
        "windows of a trace far off the median of the minute around them; spikes near each other are one burst",
    ),
    ("steal, slow cores", "time that the host gave to others, and seconds in which the yardstick took longer"),
    ("lag 1", "how much neighbouring parts of a trace are alike: 0 not at all, 1 wholly"),
    ("Holm", "a way to judge several sentences so that the chance of any wrong verdict stays below 5 %"),
    (
        "p",
        "how likely data this far from the limit are if the verdict is wrong; where the verdict is cannot tell, two are possible, holds "
        "and does not hold: the smaller of their two numbers",
    ),
    (
        "cannot tell",
        "the interval has values on both sides of the limit, or it is not shown that the levels reach the plateau; more runs would tell",
    ),
    (
        "power",
        "the chance to see a difference that is there; what would tell in 4 of 5 such studies has a power of 80 %",
    ),
    ("false discovery rate", "of what is called significant, the share that is not there: 5 % here"),
    ("2^k r design", "each of k factors at two levels, all combinations, r runs of each"),
    ("effect", "half of the change from the low level of a factor to the high one, the mean over all other levels"),
    ("share, importance", "how much of the variation of all runs comes from a factor"),
    (
        "read: additive, on logarithms",
        "whether effects are taken to add up or to multiply, whichever fits the spread of the runs",
    ),
    ("seen, held out", "cells that a model was fitted to, and cells that it had to predict"),
    (
        "D, D_max, N*",
        "CPU or link time that a request takes in all, at the busiest station, and clients from which on that one is full",
    ),
    (
        "product form",
        "networks of queues whose stations can be solved one by one, which most real proxies are not quite",
    ),
    ("M/M/1, M/M/m", "a queue with random arrivals and service times, and one server or m"),
    ("USL", "universal scalability law: throughput with a cost of waiting for others and one of agreeing with them"),
)


def terms_section() -> Section:
    """The last section of a page."""
    return Section(
        TERMS,
        "Words and letters",
        "",
        "",
        blocks=(
            Text(
                "What is measured (N, X, R and the stamps) is explained with the system; these are the other terms of this page.",
                tuple(f"{term}: {meaning}." for term, meaning in _TERMS),
                folded=True,
            ),
        ),
    )
