"""What is filled into the command line and the files of a study's subject."""

from __future__ import annotations

from typing import Any

import pytest

from synthetic import STUDY_TEXT
from weir_lab.bench.planning import doubts
from weir_lab.bench.programs.filling import Filling, unknown_names
from weir_lab.design import Settings, Subject, content_sha256, parse_study, schedule

SERVERS = ("10.0.0.1:11211", "10.0.0.2:11212")


def filling(**files: str) -> Filling:
    cell = Settings.model_validate({"clients": 12, "proxy_threads": 3, "servers": 2})
    return Filling("127.0.0.1:20001", "127.0.0.1:20002", SERVERS, cell, files)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{listen} {host} {port}", "127.0.0.1:20001 127.0.0.1 20001"),
        ("{admin} {admin_host} {admin_port}", "127.0.0.1:20002 127.0.0.1 20002"),
        ("{servers}", "10.0.0.1:11211,10.0.0.2:11212"),
        ("{servers: }|{servers:, }", "10.0.0.1:11211 10.0.0.2:11212|10.0.0.1:11211, 10.0.0.2:11212"),
        ("{server_count} {threads} {clients} {proxy_threads}", "2 3 12 3"),
        ("a\n  - {server}:1\nb", "a\n  - 10.0.0.1:11211:1\n  - 10.0.0.2:11212:1\nb"),
        ("server s{server_number} {server_host} {server_port}", "server s1 10.0.0.1 11211\nserver s2 10.0.0.2 11212"),
        ("{file:p.yml}", "/r/proxy.p.yml"),
        ("{ {listens} {} {a b} {file:other} {x:y}", "{ {listens} {} {a b} {file:other} {x:y}"),
    ],
)
def test_a_file_is_filled_in(text: str, filled: str) -> None:
    assert filling(**{"p.yml": "/r/proxy.p.yml"}).text(text) == filled


@pytest.mark.parametrize(
    ("argv", "filled"),
    [
        (["p", "--server={server}"], ["p", "--server=10.0.0.1:11211", "--server=10.0.0.2:11212"]),
        (["p", ["-s", "{server}"]], ["p", "-s", "10.0.0.1:11211", "-s", "10.0.0.2:11212"]),
        (["p", ["-l", "{listen}"]], ["p", "-l", "127.0.0.1:20001"]),
        (["p", "-c", "{config}"], ["p", "-c", "/r/proxy.conf"]),
    ],
)
def test_a_command_line_is_filled_in(argv: list[str | list[str]], filled: list[str]) -> None:
    assert filling(conf="/r/proxy.conf").argv(Subject(argv=argv)) == filled


def test_a_slip_in_braces_is_a_doubt_and_a_programs_own_braces_are_left() -> None:
    assert (
        unknown_names(Subject(argv=["p", "{servers}", "{servers: }", "{workers}", "{file:a}"], files={"a": "{ }"}))
        == {}
    )
    subject = Subject(argv=["p", "{sever}"], files={"a": "{file:b}"})
    assert unknown_names(subject) == {"{sever}": "{server}", "{file:b}": "{file:a}"}
    made = parse_study(STUDY_TEXT + '[subjects.mine]\nargv = ["p", "{sever}"]\n')
    assert "subjects.mine: {sever} is left as it is: did you mean {server}?" in doubts(made)


def test_the_files_of_a_subject_are_part_of_the_content() -> None:
    def hashed(more: str) -> str:
        text = STUDY_TEXT.replace("[fixed]", '[fixed]\nsubject = "mine"').replace('"direct", ', "")
        made = parse_study(text + f'[subjects.mine]\nargv = ["p"]\n{more}')
        return content_sha256(made, schedule(made)[0], {})

    assert hashed("") == hashed("[subjects.mine.files]\n")
    assert len({hashed(""), hashed('files = { "a.cfg" = "x" }'), hashed('files = { "a.cfg" = "y" }')}) == 3


@pytest.mark.parametrize(
    ("subject", "says"),
    [
        ({"argv": [["p"]]}, "argv begins with the program"),
        ({"argv": ["p"], "config": "", "files": {"conf": ""}}, "give it another name"),
        ({"argv": ["p"], "files": {"../x": ""}}, "pattern"),
    ],
)
def test_a_subject_that_starts_nothing_or_writes_elsewhere_is_refused(subject: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Subject.model_validate(subject)
