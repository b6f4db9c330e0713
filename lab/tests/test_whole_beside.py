"""Subjects side by side from a synthetic sweep of our own study, on a machine that is half as fast in one of the blocks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from synthetic_whole import Truth, write_whole
from weir_lab.bench.sweep.sets import take_files
from weir_lab.report.page.blocks import Figure, Table, Text, Value
from weir_lab.report.sets import Sources, assemble

if TYPE_CHECKING:
    from weir_lab.report.page.blocks import Report, Section

STUDIES = Path(__file__).parents[2] / "studies"
SET = """
schema = "weir.set/1"
name = "small"
title = "Side by side"
about = "The sweep of our own study that has all subjects in each block."
engine = "event"
[[sections]]
name = "small"
title = "Small values"
kind = "beside"
files = ["own-beside.toml"]
[[sections.claims]]
name = "cost"
claim = "A proxy costs half at most."
rule = "change_above"
at = { clients = 64, subject = "weir" }
args = { factor = "path", from = "direct", to = "proxy", percent = -50.0 }
[[sections.claims]]
name = "peer"
claim = "Weir answers more than the other."
rule = "change_above"
at = { clients = 64, path = "proxy" }
args = { factor = "subject", from = "nutcracker", to = "weir", percent = 0.0 }
[[sections.claims]]
name = "peer-much"
claim = "Weir answers more than twice as much as the other."
rule = "change_above"
at = { clients = 64, path = "proxy" }
args = { factor = "subject", from = "nutcracker", to = "weir", percent = 100.0 }
[[sections.claims]]
name = "nobody"
claim = "Somebody is faster than nobody."
rule = "change_above"
at = { clients = 65 }
args = { factor = "subject", from = "nutcracker", to = "weir", percent = 0.0 }
[[sections]]
name = "models"
title = "Models"
kind = "models"
files = ["own-beside.toml"]
"""
GAINS = {"direct": 1.0, "Weir": 0.7, "twemproxy": 0.5}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Weir at 0.7 of direct access, twemproxy at 0.5; the second block at half of the machine's speed."""
    root = tmp_path_factory.mktemp("beside")
    (root / "given").mkdir()
    (root / "given" / "small.set.toml").write_text(SET)
    (root / "given" / "own-beside.toml").write_text((STUDIES / "own-beside.toml").read_text())
    study_set = take_files(root / "given" / "small.set.toml", root / "root")
    truth = Truth(links=False, event_gain=GAINS["Weir"], peer_gain=GAINS["twemproxy"], slow_block=0.5, yardstick=True)
    write_whole(root / "root", study_set, truth)
    return assemble(study_set, Sources(root / "root", root / "root" / "studies"), "quick", "local")


def part(report: Report, name: str) -> Section:
    found = next(one for one in report.sections if one.name == name)
    assert found.missing == ""
    return found


def sentences(report: Report, name: str) -> list[str]:
    return [line for one in part(report, name).blocks if isinstance(one, Text) for line in (one.text, *one.points)]


def number_of(entry: object) -> Value:
    assert isinstance(entry, Value), entry
    return entry


def test_changes_are_paired_by_block_so_that_a_slow_hour_of_the_machine_widens_no_interval(report: Report) -> None:
    tables = {one.name: one for one in part(report, "small").blocks if isinstance(one, Table)}
    rows = {(row[1], row[2], number_of(row[3]).value): row for row in tables["small-changes"].rows}
    assert {key[:2] for key in rows} == {("Weir", "direct"), ("twemproxy", "direct"), ("twemproxy", "Weir")}
    assert {key[2] for key in rows} == {1.0, 4.0, 16.0, 64.0}
    for (one, base, _), row in rows.items():
        throughput, response = number_of(row[5]), number_of(row[6])
        ratio = GAINS[str(one)] / GAINS[str(base)]
        assert throughput.value == pytest.approx(100 * (ratio - 1), abs=3.0)
        assert response.value == pytest.approx(100 * (1 / ratio - 1), abs=6.0)
        # Runs of the slow block are off by half: unpaired, an interval would reach over tens of percent.
        assert throughput.low is not None
        assert throughput.high is not None
        assert throughput.high - throughput.low < 6.0
        equal = number_of(row[4])
        assert equal.value == pytest.approx(throughput.value, abs=1.5)
        assert equal.low is not None
        assert equal.high is not None
        assert equal.high - equal.low < 6.0
    assert any("yardstick took 1 % longer, throughput was 1.0" in line for line in sentences(report, "small"))
    levels = {(row[1], number_of(row[2]).value): row for row in tables["small-table"].rows}
    assert levels["direct", 64.0][6] == "–"
    assert number_of(levels["twemproxy", 64.0][6]).value > 0.0


def test_each_subject_has_one_line_and_no_settings_of_a_proxy_stand_with_direct_access(report: Report) -> None:
    figure = next(one for one in part(report, "small").blocks if isinstance(one, Figure))
    for panel in figure.panels:
        assert [line.name for line in panel.lines] == ["direct", "Weir", "twemproxy"]
        assert [len(line.marks) for line in panel.lines] == [4, 4, 4]
    assert any("at 64 clients" in line and "twemproxy" in line and "direct" in line for line in report.summary)


def test_claims_compare_named_levels(report: Report) -> None:
    verdicts = {finding.name: finding.verdict for finding in report.findings}
    assert verdicts == {"cost": "holds", "peer": "holds", "peer-much": "does not hold", "nobody": "no data"}
    evidence = next(finding.evidence for finding in report.findings if finding.name == "peer")
    assert "(twemproxy to Weir, through the proxy, 64 clients)" in evidence


def test_models_are_made_of_the_subject_whose_stages_are_known(report: Report) -> None:
    blocks = part(report, "models").blocks
    predicted = next(one for one in blocks if isinstance(one, Table) and one.name == "models-predicted")
    # Of the subjects the one that tells its stages, and the servers without any.
    counts = Counter(row[0] for row in predicted.rows)
    assert counts == {"1 proxy, 3 servers, 10 % writes": 4, "no proxy, 3 servers, 10 % writes": 4}
    assert any(isinstance(one, Text) for one in blocks)
