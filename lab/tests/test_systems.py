"""The drawing of a system: every number of it, its stamps in order, and that it fits a phone."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from synthetic_whole import Truth, write_whole
from weir_lab.bench.sweep.sets import take_files
from weir_lab.records.formats import STAGES
from weir_lab.report.numbers.readings import read_cells
from weir_lab.report.page.blocks import Figure, Table, Text, Value
from weir_lab.report.page.drawings.machines import STAMPS, System, Tier, draw_system, system_of
from weir_lab.report.sets.system import _assumed_links, _copies_text, system_section


def _placed(placement: str, servers: int) -> Any:
    return SimpleNamespace(cells=(SimpleNamespace(settings=SimpleNamespace(placement=placement, servers=servers)),))


DATA = Path(__file__).parent / "data" / "whole"
CLIENTS = Tier("3 client machines", 3, ("6 to 192 clients on all of them together",), 40.2, 1.6)
PROXIES = Tier("2 proxies, engine pool", 2, ("each: 0.32 CPUs, on core 0",), 160.8, 1.75)
SERVERS = Tier("3 memcached servers", 3, ("1 thread each, 0.16 CPUs",), 20.2, 1.9)
STATIONS = ("network thread", "one queue", "8 to 64 workers")
# A character of 11 px in common sans-serif faces, at its widest average.
_CHARACTER = 6.2


def texts_of(svg: str) -> list[tuple[float, float, str, str]]:
    """Every text with its place and where it is anchored."""
    root = ElementTree.fromstring(svg)
    return [
        (float(one.attrib["x"]), float(one.attrib["y"]), one.attrib.get("text-anchor", "start"), one.text or "")
        for one in root.iter("text")
    ]


def test_every_number_of_the_machines_stands_in_the_drawing_and_in_its_sentence() -> None:
    system = system_of("as built", CLIENTS, PROXIES, SERVERS, STATIONS)
    drawn = [text for *_, text in texts_of(draw_system(system))]
    for tier, rate, delay in (
        (CLIENTS, "3 × 40.2 Mbit/s", "1.6 ms on the way"),
        (PROXIES, "2 × 160.8 Mbit/s", "1.75 ms on the way"),
        (SERVERS, "3 × 20.2 Mbit/s", "1.9 ms on the way"),
    ):
        assert {tier.name, rate, delay, *tier.texts} <= set(drawn)
        assert f"{tier.name}, {rate}, {delay} to each" in system.sentence
    # Both tiers beside a link send over it; what comes to a proxy comes from both sides.
    assert drawn.count("2 × 160.8 Mbit/s") == drawn.count("1.75 ms on the way") == 2
    assert set(STATIONS) <= set(drawn)
    assert unescape(re.search(r'aria-label="([^"]*)"', draw_system(system))[1]) == system.sentence  # type: ignore[index]
    assert [mark.y for mark in system.lines[0].marks] == [3.0, 2.0, 3.0]


def test_stamps_are_numbered_down_to_the_servers_and_up_again() -> None:
    places = texts_of(draw_system(system_of("as built", CLIENTS, PROXIES, SERVERS, STATIONS)))
    at = {text: (x, y) for x, y, _, text in places}
    down, up = [at[name] for name in STAMPS[:5]], [at[name] for name in STAMPS[5:]]
    assert [y for _, y in down] == sorted(y for _, y in down)
    assert up[0][1] > up[1][1]
    assert all(x < 180 for x, _ in down)
    assert all(x > 180 for x, _ in up)
    for place, name in enumerate(STAMPS, start=1):
        assert abs(at[str(place)][1] - at[name][1]) < 1.0
    stages = [at[stage] for stage in STAGES[:5]]
    for (_, above), (_, stage), (_, below) in zip(down, stages, down[1:], strict=False):
        assert above < stage < below


@pytest.mark.parametrize("proxies", [PROXIES, None])
def test_the_drawing_is_as_narrow_as_a_phone_and_no_text_leaves_it_or_meets_another(proxies: Tier | None) -> None:
    svg = draw_system(system_of("as built", CLIENTS, proxies, SERVERS, STATIONS if proxies else None))
    width, height = (float(one) for one in re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups())  # type: ignore[union-attr]
    # A page at 390 px has 355 for it: text of 11 px stays above 10.
    assert width <= 360.0
    spans = []
    for x, y, anchor, text in texts_of(svg):
        long = _CHARACTER * len(text)
        left = x if anchor == "start" else x - long
        assert left >= 0.0, text
        assert left + long <= width, text
        assert 0.0 < y < height, text
        if not text.isdigit():
            spans.append((y, left, left + long, text))
    for y, left, right, text in spans:
        for other_y, other_left, other_right, other in spans:
            if text < other and abs(y - other_y) < 10.0:
                assert right <= other_left or other_right <= left, (text, other)


def test_a_proxy_without_stations_is_refused() -> None:
    with pytest.raises(ValueError, match="a proxy has three stations"):
        system_of("as built", CLIENTS, PROXIES, SERVERS, None)


def test_the_section_says_what_the_study_files_and_the_testbed_say(tmp_path: Path) -> None:
    study_set = take_files(DATA / "small.set.toml", tmp_path)
    absent = tuple(file for file in study_set.files if file not in ("t-direct.toml", "t-full.toml"))
    write_whole(tmp_path, study_set, Truth(), leave_out=absent)
    sweeps = [read_cells(f"{name}.toml", tmp_path / name) for name in ("t-direct", "t-full")]
    section = system_section(sweeps)
    assert section is not None
    tables = {one.name: one for one in section.blocks if isinstance(one, Table)}
    (figure,) = (one for one in section.blocks if isinstance(one, Figure))
    (system,) = figure.panels
    assert isinstance(system, System)
    settings = sweeps[1].cells[0].settings
    assert system.proxies is not None
    assert [tier.machines for tier in system.tiers] == [settings.client_machines, settings.proxies, settings.servers]
    assert [tier.mbit_s for tier in system.tiers] == [201.0, 804.0, 101.0]
    assert [station.name for station in system.stations] == ["network thread", "one queue", "8 to 64 workers"]
    assert section.blocks[0] is figure
    reported = section.blocks[1]
    assert isinstance(reported, Text)
    assert reported.note, "a screen reader says it with the drawing, and the page need not say it twice"
    assert reported.text.startswith(system.sentence)
    assert reported.text.endswith(
        "On a real link of 101 Mbit/s (that of a server) a value of 4,096 bytes would take 0.32 ms more."
    )
    # Nothing says where copies lie of a placement that is not modulo.
    assert "modulo" not in tables["system-layouts"].caption
    assert _copies_text({"one": _placed("modulo", 3)}).startswith(" By the placement modulo a key's first server")
    assert _copies_text({"one": _placed("modulo", 1)}) == _copies_text({"one": _placed("ring", 3)}) == ""
    assumed: Any = SimpleNamespace(study=SimpleNamespace(assumed=["topology.links"]))
    assert _assumed_links({"one": assumed}) == " It measured no links."
    assert _assumed_links({one.file: one for one in sweeps}) == ""
    layouts = {row[0]: row for row in tables["system-layouts"].rows}
    assert layouts["t-direct"][3:6] == ("–", "–", "–")
    assert layouts["t-full"][4:6] == ("pool", "8 to 64")
    machines = {(row[0], row[-1]): row for row in tables["system-machines"].rows}
    heads = ("Study: link (Mbit/s)", "Study: delay (ms)", "Study: CPUs")
    assert tables["system-machines"].columns[4:7] == heads
    # Rates that the page had chosen stood under “Study: link (Mbit/s)”.
    unmeasured = replace(
        sweeps[1], study=sweeps[1].study.model_copy(update={"assumed": ["topology.links", "topology.cpu"]})
    )
    section = system_section([sweeps[0], unmeasured])
    assert section is not None
    (found,) = (one for one in section.blocks if isinstance(one, Table) and one.name == "system-machines")
    assert found.columns[4:7] == tuple(one.replace("Study", "Study (assumed)") for one in heads)
    assert machines["server", "all"][1] == machines["server", "all"][4]
    assert [row[1] for row in tables["system-stamps"].rows] == list(STAMPS)
    assert system_section([]) is None


def test_a_table_says_how_far_the_first_second_that_counts_is_off_the_others(tmp_path: Path) -> None:
    """S5 cut 15 s where ours cut 2, and nothing said whether that was enough."""
    study_set = take_files(DATA / "small.set.toml", tmp_path)
    write_whole(tmp_path, study_set, Truth(), leave_out=tuple(set(study_set.files) - {"t-full.toml"}))

    def entries() -> tuple[object, ...]:
        section = system_section([read_cells("t-full.toml", tmp_path / "t-full")])
        assert section is not None
        (table,) = (one for one in section.blocks if isinstance(one, Table) and one.name == "system-layouts")
        assert table.columns[-2:] == ("Warm-up (s)", "First second (%)")
        return table.rows[0][-2:]

    # Two seconds tell nothing.
    assert entries()[1] == "–"
    for path in (tmp_path / "t-full" / "runs").glob("*/load.json"):
        load = json.loads(path.read_text())
        first = load["windows"][0]
        counts = (900, 1000, 1010, 990, 1000)
        load["windows"] = [
            {**first, "start_ns": place * first["length_ns"], "requests": count} for place, count in enumerate(counts)
        ]
        path.write_text(json.dumps(load))
    warmup, share = entries()
    assert isinstance(warmup, Value)
    assert warmup.value == 0.0
    assert isinstance(share, Value)
    assert share.value == pytest.approx(-10.0)
    assert share.text.startswith("−10.0")
    (run, *_) = read_cells("t-full.toml", tmp_path / "t-full").cells[0].runs
    assert run.late_throughput == pytest.approx(995.0)
