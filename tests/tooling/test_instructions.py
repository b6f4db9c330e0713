"""The guard over instructions per request fails when a load costs more, and only then."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
from types import ModuleType

import pytest

from tests.harness.processes import ROOT


@pytest.fixture(scope="module")
def instructions() -> ModuleType:
    path = str(ROOT / "scripts" / "instructions")
    loader = importlib.machinery.SourceFileLoader("instructions", path)
    spec = importlib.util.spec_from_loader("instructions", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.parametrize(("now", "status"), [(900, 0), (1000, 0), (1030, 0), (1031, 1), (2000, 1)])
def test_a_request_may_cost_up_to_the_tolerance_more(
    instructions: ModuleType, capsys: pytest.CaptureFixture[str], now: int, status: int
) -> None:
    assert instructions.judge({"one": 1000}, {"one": now}, 3.0) == status
    assert ("costs more" in capsys.readouterr().out) == bool(status)


def test_a_record_of_other_loads_is_not_compared(instructions: ModuleType) -> None:
    assert instructions.judge({"one": 1000}, {"two": 1000}, 3.0) == 1


def test_the_record_knows_every_load(instructions: ModuleType) -> None:
    assert json.loads(instructions.RECORD.read_text())["instructions_per_request"].keys() == instructions.TURNS.keys()
