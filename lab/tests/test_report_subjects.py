"""A page for every subject: proxies that tell nothing of themselves, no proxy at all, generators without percentiles."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from synthetic import STUDY_TEXT, write_sweep
from weir_lab.bench.programs.subjects import NUTCRACKER, WEIR
from weir_lab.report.numbers.essence import essence_table
from weir_lab.report.single.report import build_report

if TYPE_CHECKING:
    from pathlib import Path

_PATHS = 'path = ["direct", "proxy"]\n'
_CLIENTS = "clients = [1, 4, 16]\n"
_OTHERS = """
[subjects.wrapper]
argv = ["/bin/sh", "wrapper.sh", "{listen}", "{servers}"]
[subjects.memcached]
argv = ["memcached", "-l", "{host}", "-p", "{port}"]
"""


def study_text(fixed: str = "", factors: str = _CLIENTS + _PATHS, *, predicted: bool = False) -> str:
    text = STUDY_TEXT if predicted else STUDY_TEXT[: STUDY_TEXT.index("[[predictions]]")]
    return text.replace("[fixed]\n", f"[fixed]\n{fixed}").replace(_CLIENTS + _PATHS, factors) + _OTHERS


SWEEPS = {
    "beside-direct": study_text('subject = "{}"\n', predicted=True),
    "over-clients": study_text('subject = "{}"\npath = "proxy"\n', _CLIENTS),
    "one-level": study_text('subject = "{}"\npath = "proxy"\n', "clients = [4]\n"),
    "two-levels": study_text(
        'subject = "{}"\npath = "proxy"\n', "clients = [1, 16]\nvalue_size_bytes = [64, 128]\n"
    ).replace("value_size_bytes = 128\n", ""),
    "memcaslap": study_text('subject = "{}"\ngenerator = "memcaslap"\nkey_size_bytes = 16\n'),
}


@pytest.mark.parametrize(
    ("sweep", "subject"),
    [
        *(("beside-direct", subject) for subject in (WEIR, NUTCRACKER, "wrapper", "memcached")),
        *((sweep, NUTCRACKER) for sweep in SWEEPS if sweep != "beside-direct"),
        ("memcaslap", WEIR),
    ],
)
def test_every_subject_has_its_page(tmp_path: Path, sweep: str, subject: str) -> None:
    folder = tmp_path / "tiny"
    write_sweep(folder, text=SWEEPS[sweep].replace("{}", subject))
    files = build_report(folder)
    page, twin = files.html.read_text(), json.loads(files.json.read_text())
    essence_table(files.numbers)
    reported = [point["proxy"] for point in twin["points"] if point["path"] == "proxy"]
    assert reported
    if subject == WEIR:
        assert all(reported)
        assert "Mean time per request (µs)" in page
    else:
        assert not any(reported)
        assert "Mean time per request (µs)" not in page
        assert f"{subject} tells nothing of the stages of a request" in page


def test_subjects_side_by_side_share_a_page(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    names = ", ".join(f'"{name}"' for name in (WEIR, NUTCRACKER, "wrapper", "memcached"))
    write_sweep(folder, text=study_text('path = "proxy"\n', f"{_CLIENTS}subject = [{names}]\n"))
    files = build_report(folder)
    page = files.html.read_text()
    assert {point.level("subject") for point in files.numbers.points if point.proxy is not None} == {WEIR}
    for subject in ("twemproxy", "wrapper", "memcached"):
        assert f"{subject} " in page
    assert "nutcracker, wrapper and memcached tell nothing of the stages of a request" in page


def test_servers_alone_have_a_page(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    write_sweep(folder, text=study_text('path = "direct"\n', _CLIENTS))
    page = build_report(folder).html.read_text()
    assert 'id="stages"' not in page
    assert "tells nothing" not in page
