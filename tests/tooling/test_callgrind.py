"""What calls into some functions cost, and what a library spends itself, as callgrind writes it."""

import re
from pathlib import Path

from bench.callgrind import spent_by, spent_in

PROFILE = """\
version: 1
events: Ir
fl=(1) loop.rs
fn=(1) EventLoop::run
10 100
cfn=(2) Recorder::close_until
calls=2 40
+3 5000
* 7
cfn=(3) EventLoop::write
calls=9 60
* 300
fn=(2)
40 1000
cfn=(4) Recorder::merge
calls=4 80
* 4000
fn=(3)
60 290
cfn=(2)
calls=1 40
-2 10
fn=(4)
80 4000
"""


def test_calls_from_outside_count_with_all_that_they_call(tmp_path: Path) -> None:
    profile = tmp_path / "out"
    profile.write_text(PROFILE)
    # What `close_until` spends in `merge` is in the 5,000 already.
    assert spent_in(profile, re.compile("Recorder::")) == 5010
    assert spent_in(profile, re.compile("merge")) == 4000
    assert spent_in(profile, re.compile("EventLoop::write")) == 300
    assert spent_in(profile, re.compile("nothing")) == 0


OBJECTS = """\
ob=(1) /usr/bin/weir
fl=(1) loop.rs
fn=(1) EventLoop::run
10 100
cob=(2) /tmp/clock.so
cfn=(2) clock_gettime
calls=2 0
10 50
ob=(2)
fn=(2)
0 30
cob=(3) /lib/libc.so
cfn=(3) clock_gettime
calls=2 0
+1 20
* 4
ob=(3)
fn=(3)
-5 20
"""


def test_a_library_is_what_it_spends_itself(tmp_path: Path) -> None:
    profile = tmp_path / "out"
    profile.write_text(OBJECTS)
    assert spent_by(profile, re.compile(r"clock\.so")) == 34
    assert spent_by(profile, re.compile("weir")) == 100
    assert spent_by(profile, re.compile("libc")) == 20
