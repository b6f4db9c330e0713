"""The page of `weir-lab ab`: the answer first, whatever the verdict, and its numbers are those of the lives."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from weir_lab.records.comparisons import (
    Budget,
    ComparisonRecord,
    LevelRecord,
    LifeRecord,
    LookRecord,
    Metric,
    Outcome,
    PieceRecord,
    Rule,
    SideRecord,
    answer_lines,
    ended_record,
    limit_lines,
    replay,
    verdict_sentence,
)
from weir_lab.report.comparison import comparison_report
from weir_lab.report.page.blocks import Table
from weir_lab.report.page.html import html_page
from weir_lab.theory.stats.stopping import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence


def lives_with(change: float, lives: int = 12, sd: float = 0.01, *, cpu: bool = True) -> list[LifeRecord]:
    """B's throughput is `change` times that of A."""
    random = np.random.default_rng(1)

    def piece(side: str, place: int) -> PieceRecord:
        rate = 20_000.0 * (change if side == "B" else 1.0) * float(np.exp(random.normal(0.0, sd)))
        return PieceRecord(
            side="A" if side == "A" else "B",
            clients=4,
            pair=place // 2,
            begun_ns=place * 100_000_000,
            requests=round(rate * 0.08),
            throughput_rps=rate,
            mean_ns=16e9 / rate,
            p50_ns=round(15e9 / rate),
            cpu_ns_per_request=1.5e8 / rate if cpu else None,
        )

    return [
        LifeRecord(
            number=number,
            begun_unix_ns=1,
            took_s=2.0,
            first="B",
            pieces=[piece("AB"[place % 2], place) for place in range(14)],
            yardstick_ns=[{"0": 250_000 + 100 * place} for place in range(15)],
        )
        for number in range(1, lives + 1)
    ]


def record_of(outcomes: dict[int, Outcome], rule: Rule) -> ComparisonRecord:
    side = SideRecord(asked="weir", argv=["weir", "proxy"], programs={"weir": "0" * 64})
    begun = ComparisonRecord(
        sides={"A": side, "B": side},
        metric=rule.metric,
        same_within_percent=100.0 * rule.same_within,
        precision_percent=None,
        error=rule.plan.error,
        budget_s=60.0,
        lives_max=None,
        pairs=6,
        piece_s=0.08,
        warmup_s=0.015,
        load=["weir", "load"],
        servers=1,
        cores={"client": [0], "proxy": []},
        seed=1,
        machine={"cpu_model": "a <fast> one"},
        begun_unix_ns=1,
        took_s=0.0,
        levels=[],
        verdict="cannot tell",
    )
    return ended_record(begun, outcomes, rule, 24.0)


def page_of(lives: Sequence[LifeRecord], rule: Rule) -> tuple[str, Outcome]:
    outcome = replay(lives, rule, Budget(seconds=60.0), 4)
    return html_page(comparison_report(record_of({4: outcome}, rule), outcome.lives)), outcome


@pytest.mark.parametrize(
    ("change", "sd", "verdict", "words"),
    [
        (1.2, 0.01, Verdict.FASTER, "B is faster: throughput +"),
        (0.8, 0.01, Verdict.SLOWER, "B is slower: throughput −"),
        (1.0, 0.001, Verdict.SAME, "B is the same as A within 2.00 %"),
        (1.0, 0.4, Verdict.CANNOT_TELL, "Cannot tell: throughput"),
    ],
)
def test_the_answer_stands_first_whatever_it_is(change: float, sd: float, verdict: Verdict, words: str) -> None:
    page, outcome = page_of(lives_with(change, sd=sd), Rule())
    assert outcome.verdict is verdict
    assert page.index(words) < page.index("<figure")
    assert page.count("<figure ") == 2
    assert "a &lt;fast&gt; one" in page
    assert "weir-lab verify" not in page  # there is no twin to be verified
    assert len(page) < 150_000


def test_the_table_has_the_interval_of_the_last_look_and_leaves_out_what_was_not_measured() -> None:
    rule = Rule()
    lives = lives_with(0.9, cpu=False)
    outcome = replay(lives, rule, Budget(seconds=60.0), 4)
    report = comparison_report(record_of({4: outcome}, rule), outcome.lives)
    table = next(block for block in report.sections[0].blocks if isinstance(block, Table))
    names = [str(row[0]) for row in table.rows]
    assert names == ["throughput (requests/s)", "mean response time (µs)", "median response time (µs)"]
    shown = table.rows[0][3]
    look = outcome.look_records[-1]
    assert (shown.value, shown.low, shown.high) == pytest.approx(  # type: ignore[union-attr]
        (look.change_percent, look.low_percent, look.high_percent)
    )


def test_too_few_lives_for_a_look_make_a_page_without_intervals() -> None:
    page, outcome = page_of(lives_with(0.5, lives=3), Rule())
    assert outcome.judgement is None
    assert "the first look is after 5" in page
    assert "no look yet" in page
    assert page.count("<figure ") == 2


def test_a_single_life_is_drawn_once() -> None:
    page, _ = page_of(lives_with(0.5, lives=1), Rule())
    assert "The first life" in page
    assert "The last life" not in page


def test_times_are_better_when_they_are_less() -> None:
    _, outcome = page_of(lives_with(1.2), Rule(metric=Metric.RESPONSE_TIME))
    assert outcome.verdict is Verdict.FASTER
    sentence = verdict_sentence(outcome, Rule(metric=Metric.RESPONSE_TIME))
    assert re.match(r"B is faster: mean response time −1\d\.\d % \(97\.5 % interval −", sentence)
    assert "12 process lives" in sentence or "5 process lives" in sentence


def test_several_numbers_of_clients_stand_side_by_side() -> None:
    rule, few, many = Rule(), lives_with(0.5), lives_with(0.9)
    lives = [
        one.model_copy(
            update={
                "pieces": [
                    *one.pieces,
                    *(piece.model_copy(update={"clients": 64, "pair": piece.pair}) for piece in other.pieces),
                ],
                "yardstick_ns": [{"0": 250_000}] * (2 * len(one.pieces) + 1),
            }
        )
        for one, other in zip(few, many, strict=True)
    ]
    outcomes = {clients: replay(lives, rule, Budget(seconds=60.0), clients) for clients in (4, 64)}
    record = record_of(outcomes, rule)
    page = html_page(comparison_report(record, lives[:5]))
    assert record.verdict == "slower"
    assert [level.sentence.split(":")[0] for level in record.levels] == ["4 clients", "64 clients"]
    assert all(level.sentence in page for level in record.levels)
    assert page.count("<figure ") == 4
    assert page.count("<caption>") >= 2


def level_of(clients: int, verdict: Verdict, change: float) -> LevelRecord:
    look = LookRecord(
        lives=7, used=0.5, change_percent=change, low_percent=change - clients, high_percent=change + clients
    )
    return LevelRecord(
        clients=clients, looks=[look], verdict=verdict.value, sentence=f"{clients} clients: so. Do more."
    )


def test_of_many_numbers_of_clients_the_answer_counts_the_verdicts_and_names_the_ends() -> None:
    rule = Rule()
    record = record_of({4: replay(lives_with(0.5), rule, Budget(seconds=60.0), 4)}, rule)
    levels = [
        level_of(1, Verdict.SLOWER, -60.0),
        level_of(4, Verdict.SLOWER, -50.0),
        level_of(16, Verdict.SLOWER, -20.0),
        level_of(64, Verdict.CANNOT_TELL, 1.0),
    ]
    record = record.model_copy(update={"levels": levels, "errors": "B answered 1 of 9 requests with an error: x."})
    assert answer_lines(record) == [
        "Of 4 numbers of clients: B is slower with 1, 4 and 16; cannot tell with 64.",
        "The throughput changes by −60.0 % (97.5 % interval −61.0 to −59.0) with 1 client to +1.00 % (97.5 % interval −63.0 to "
        "+65.0) with 64 clients.",
    ]
    limits = limit_lines(record)
    assert limits[0] == "7 process lives show changes of about 64.0 % or more with 64 clients."
    assert limits[1:] == [
        *(f"With {count} clients, do more." if count > 1 else "With 1 client, do more." for count in (1, 4, 16, 64)),
        "B answered 1 of 9 requests with an error: x.",
    ]
    few = record.model_copy(update={"levels": record.levels[:3]})
    assert answer_lines(few) == [f"{clients} clients: so." for clients in (1, 4, 16)]


def test_verdicts_that_the_answer_counts_open_on_demand() -> None:
    found = {1: lives_with(0.5), 4: lives_with(0.9), 16: lives_with(0.9), 64: lives_with(1.2)}
    lives = []
    for place, one in enumerate(found[1]):
        pieces = [
            piece.model_copy(update={"clients": clients})
            for clients, made in found.items()
            for piece in made[place].pieces
        ]
        readings = [{"0": 250_000}] * (len(pieces) + 1)
        lives.append(one.model_copy(update={"pieces": pieces, "yardstick_ns": readings}))
    rule = Rule()
    record = record_of({clients: replay(lives, rule, Budget(seconds=60.0), clients) for clients in found}, rule)
    report = comparison_report(record, lives[:5])
    assert report.summary[0] == "Of 4 numbers of clients: B is slower with 1, 4 and 16; B is faster with 64."
    assert len(report.summary) == 2
    assert report.details == tuple(level.sentence for level in record.levels)
    page = html_page(report)
    opened = page[page.index("<summary>What else was found") : page.index("<nav ")]
    assert all(level.sentence in opened for level in record.levels)


def test_error_replies_are_reported_with_the_answer() -> None:
    lives = [
        one.model_copy(update={"asked": {"A": 100, "B": 200}, "errors": {"B": {"SERVER_ERROR busy": 1}}})
        for one in lives_with(0.8)
    ]
    page, outcome = page_of(lives, Rule())
    made = len(outcome.lives)
    said = f"B answered {made} of {200 * made:,} requests with an error: {made} times"
    assert page.index(said) < page.index("<figure")
    assert "with an error" not in page_of(lives_with(0.8), Rule())[0]
