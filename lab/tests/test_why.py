"""What the paragraph of what limits says of runs with a changed station: as expected, or against a level that has fallen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from weir_lab.report.sections.claims.why import _said


def cell(throughput: float, clients: int = 384) -> Any:
    found: Any = type("Cell", (), {})()
    found.mean_throughput, found.settings = throughput, SimpleNamespace(clients=clients)
    return found


def changed(verdict: str, base: Any, other: Any) -> Any:
    return SimpleNamespace(
        more=SimpleNamespace(changes="workers"),
        verdict=verdict,
        evidence="throughput goes from this to that",
        changed_text="twice the workers",
        pairs=(SimpleNamespace(base=base, other=other),),
    )


def place(plateau: float, *beyond: Any) -> Any:
    return SimpleNamespace(plateau=plateau, stop=SimpleNamespace(maxima=(SimpleNamespace(beyond=beyond),)))


def test_a_station_that_does_not_limit_is_as_expected_when_more_of_it_changes_nothing() -> None:
    said = _said(changed("not confirmed", cell(3045.0), cell(2977.0)), "proxy uplinks", place(3050.0))
    assert said.startswith("As expected where the proxy uplinks limit, twice the workers do not bring what they would")
    own = _said(changed("not confirmed", cell(3045.0), cell(2977.0)), "workers", place(3050.0))
    assert own == "Runs with twice the workers: not confirmed; throughput goes from this to that."


def test_a_change_from_a_level_that_has_fallen_is_held_against_the_plateau_too() -> None:
    fallen = cell(550.0)
    said = _said(changed("confirmed", fallen, cell(1158.0)), "workers", place(582.0, fallen))
    assert said.endswith(
        "The unchanged level at 384 clients lies 5.5 % below the plateau of 582; against that the change is +99.0 %."
    )
    steady = _said(changed("confirmed", cell(582.0), cell(1158.0)), "workers", place(582.0, fallen))
    assert "below the plateau" not in steady
