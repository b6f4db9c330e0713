"""Terms that a page of a whole study uses, each with what it means: `terms_section`. The navigation at the top of a page leads to it.

What is measured has its words and letters with the system (`sets.system`); here is what reports say of it. A page shows both in one table
(`page.arranging.gathered`).
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from weir_lab.report.page.arranging import WORDS
from weir_lab.report.page.blocks import Figure, Finding, Report, Section, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["INTERVALS", "TERMS", "TWO_RUNS", "terms_section"]

TERMS = "terms"
INTERVALS = "Intervals are 95 % intervals over runs, t on logarithms, unless a caption says otherwise."
"""At the head of a page."""
TWO_RUNS = "Two runs stand in place of an interval where nothing else tells how far runs differ."
"""Among its details."""
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

# What a page says where it uses a term, where that is not one of the words of the term itself: a share of CPU time is no importance.
_SAID = {
    "S1 to S5": ("S1", "S2", "S3", "S4", "S5"),
    "flag": ("flag", "flagged"),
    "modulo placement": ("modulo",),
    "maximum": ("maximum", "maxima"),
    "spike, burst": ("spike",),
    "power": ("in 4 of 5 such studies",),
    "2^k r design": ("2^k",),
    "share, importance": ("importance", "share of the variation", "shares of the variation"),
    "read: additive, on logarithms": ("read: additive", "read: on logarithms"),
    "seen, held out": ("held out",),
    "D, D_max, N*": ("D_max", "N*"),
    "USL": ("USL", "universal scalability law"),
}
# Letters are no words: they have no plural, and are small or capital.
_LETTERS_MAX = 2
# What programs call a part of a report; no reader sees it.
_UNSEEN = "name"


def terms_section(report: Report) -> Section:
    """The last section of a page, with the terms that the others use."""
    page = "\n".join(_texts(report))
    rows = tuple((term, meaning) for term, meaning in _TERMS if _is_used(term, page))
    table = Table(f"{TERMS}{WORDS}", "Words and letters of this page.", ("Word", "Meaning"), rows, folded=True)
    return Section(TERMS, "Words and letters", "", "", blocks=(table,))


def _is_used(term: str, page: str) -> bool:
    """Whether any of what stands for a term is there as whole words, one or several."""
    return any(_found(said, page) for said in _SAID.get(term, tuple(term.split(", "))))


def _found(said: str, page: str) -> bool:
    if len(said) <= _LETTERS_MAX:
        return re.search(rf"(?<!\w){re.escape(said)}(?!\w)", page) is not None
    return re.search(rf"(?<!\w){re.escape(said)}(?:s|es)?(?!\w)", page, re.IGNORECASE) is not None


def _texts(value: Any) -> Iterator[str]:
    """Every text of a report that a page shows: of its head, sections, tables, and of the drawings and captions of its figures."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from _texts(one)
    elif dataclasses.is_dataclass(value):
        own = isinstance(value, Report | Section | Table | Figure | Finding)
        for one in dataclasses.fields(value):
            if not (own and one.name == _UNSEEN):
                yield from _texts(getattr(value, one.name))
        if isinstance(value, Finding) and value.p is not None:
            yield "p"  # as its column is called
