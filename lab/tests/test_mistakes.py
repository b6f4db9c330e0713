"""Mistakes of a study file: in plain words, all at once, each with its line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from weir_lab.design import FaultsError, load_study, parse_study
from weir_lab.errors import StudyError

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """schema = "weir.study/1"
name = "My Study"
measured_s = 5
clients = 4
hedline = true
[fixed]
kees = 100
write_ratio = 10
depth = [1, 2]
warmup_s = 3
keys = "many"
[factors]
clients = 4
servers = [1, "two", 0]
[plan]
repetitons = 3
seed = "x"
attempts = 0
[gates]
busy_machine = "stop"
[subjects.x]
command = ["a"]
[[predictions]]
response = "speed"
"""
SAID = """
  line 2, name: lower-case letters, digits, '-' and '.', at most 41 of them, with no '-' or '.' at the start are wanted, not 'My Study'
  line 3, measured_s: measured_s belongs under [plan]
  line 4, clients: clients is a setting: it stands under [fixed] with one value, or under [factors] with a list of levels
  line 5, hedline: unknown key hedline: did you mean headline?
  line 7, fixed.kees: unknown setting kees: did you mean keys?
  line 8, fixed.write_ratio: at most 1 is wanted, not 10
  line 9, fixed.depth: one value is wanted; a setting with several levels is a factor and stands under [factors]
  line 10, fixed.warmup_s: warmup_s belongs under [plan]
  line 11, fixed.keys: a whole number is wanted, not 'many'
  line 13, factors.clients: a factor has a list of levels, such as [4]; a setting with one value stands under [fixed]
  line 14, factors.servers: a whole number is wanted, not 'two'
  line 14, factors.servers: at least 1 is wanted, not 0
  line 16, plan.repetitons: unknown key repetitons: did you mean repetitions?
  line 17, plan.seed: a whole number is wanted, not 'x'
  line 18, plan.attempts: at least 1 is wanted, not 0
  line 20, gates.busy_machine: 'flag' or 'invalid' is wanted, not 'stop'
  line 21, subjects.x.argv: argv is required and missing
  line 22, subjects.x.command: unknown key command: there are argv, config, files
  line 23, predictions.0.clients: clients is required and missing
  line 23, predictions.0.change_percent_min: change_percent_min is required and missing
  line 23, predictions.0.change_percent_max: change_percent_max is required and missing
  line 24, predictions.0.response: 'throughput', 'mean_response_time' or 'p99_response_time' is wanted, not 'speed'
"""  # fmt: skip
SOUND = 'schema = "weir.study/1"\nname = "a"\n[factors]\nclients = [1, 2]\n'


def test_mistakes_of_all_parts_are_reported_at_once_in_plain_words(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(TEXT)
    with pytest.raises(StudyError) as caught:
        load_study(file)
    assert str(caught.value).split("\n", 1)[1] == SAID.strip("\n")


def test_schema_name_and_one_factor_are_enough_and_each_is_named_where_it_is_missing() -> None:
    made = parse_study(SOUND)
    assert (made.title, made.plan.repetitions, made.fixed) == ("a", 5, {})
    for line in SOUND.splitlines():
        if line != "[factors]":
            with pytest.raises(FaultsError, match=r"is required and missing|at least 1 level or entry is wanted"):
                parse_study(SOUND.replace(f"{line}\n", ""))


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("[plan]\nattempts = 0\n[fixed]\npath = 'proxi'\n", ["at least 1 is wanted", "'direct' or 'proxy' is wanted"]),
        ("[fixed]\nengine = 'pool'\n[plan]\nseed = -1\n", ["engine pool needs workers", "at least 0 is wanted"]),
        ("[fixed]\nclients = 4\nkeys = 0\n", ["under both [fixed] and [factors]", "at least 1 is wanted, not 0"]),
        ("[gates]\nseed = 4\n", ["seed belongs under [plan]"]),
        ("[plan]\nquestion = 'Is it?'\n", ["question belongs at the head of the file"]),
        ("[plan]\nargv = ['a']\n", ["argv belongs under [subjects.NAME]"]),
    ],
)
def test_a_mistake_hides_no_other(more: str, says: list[str]) -> None:
    with pytest.raises(FaultsError) as caught:
        parse_study(SOUND + more)
    assert all(text in str(caught.value) for text in says), str(caught.value)
    assert len(caught.value.faults) == len(says)


def test_a_line_that_is_no_toml_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("schema = 1\nname = my study\n")
    with pytest.raises(StudyError, match=r"line 2: name = my study"):
        load_study(file)
