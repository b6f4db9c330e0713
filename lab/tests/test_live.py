"""What a sweep shows while it runs, as plain lines and on a terminal."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
from rich.console import Console

from synthetic import STUDY_TEXT, World, load_record
from weir_lab.bench.sweep.live import Shown
from weir_lab.design import block, cells_of, parse_study
from weir_lab.records import Verdict
from weir_lab.records.formats import LoadRecord
from weir_lab.records.progress import CellProgress, values_of

STUDY = parse_study(STUDY_TEXT)
VALID = Verdict(valid=True, reasons=[], flags=[])


def shown(*, terminal: bool) -> str:
    """What is written while one cell gets its three runs, after one was there already."""
    output = io.StringIO()
    console = Console(file=output, force_terminal=terminal, width=120, height=40)
    live, cells = Shown(console), [CellProgress(cell) for cell in cells_of(STUDY)]
    load = LoadRecord.model_validate(load_record(1, np.full(1000, 250_000), World()))
    cells[1].values = dict.fromkeys((1, 2, 3), values_of(load))
    with live.watching():
        live.planned(STUDY, 18, 3, cells)
        for repetition in (1, 2, 3):
            run = next(run for run in block(STUDY, cells_of(STUDY), repetition) if run.cell.name == cells[0].cell.name)
            live.started(run, 1)
            if repetition == 2:
                live.finished(run, Verdict(valid=False, reasons=["too bad"], flags=[]), Path("folder"))
            live.finished(run, VALID, Path("folder"))
            cells[0].values[repetition] = values_of(load)
            live.progressed(cells[0], cells[0].decision(STUDY))
    return output.getvalue()


def test_lines_say_what_is_planned_and_what_came_of_it() -> None:
    lines = shown(terminal=False).splitlines()
    assert lines[0].startswith("tiny: 18 runs planned, 3 already there, about ")
    assert re.fullmatch(r" {3}4/18 tiny-C1-direct-r1: valid, about \d+ s left", lines[1])
    assert lines[2] == "   4/18 tiny-C1-direct-r2: invalid: too bad (folder)"
    assert re.fullmatch(r" {3}6/18 tiny-C1-direct-r3: valid, about \d+ s left", lines[4])


def test_a_terminal_shows_cells_done_and_the_width_of_intervals() -> None:
    last = shown(terminal=True).rpartition("cells done")
    assert last[0].endswith("2 of 6 ")
    assert "6 of 18 runs" in last[2]
    rows = [line.split() for line in last[0].splitlines() if "tiny-C1-direct" in line]
    assert rows[-1] == ["tiny-C1-direct", "3", "500", "0.0"]
