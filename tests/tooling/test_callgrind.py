"""What calls into some functions cost, as callgrind tells it."""

import re
from pathlib import Path

from bench.callgrind import spent_in

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
