"""What a client reads before its login and from it: the same from memcached -Y and from Weir, byte for byte.

memcached 1.6.18 answers once where it reads several requests before a login together: its answers overwrite each other,
and the last one is sent. So requests are sent one after the other here, each when the one before is answered. Weir
answers each, however they come; `test_each_request_is_answered_however_they_come` shows both.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import StartProxy
from tests.harness.logins import login, write_passwords
from tests.harness.processes import Address, Memcached
from tests.harness.wire import Wire

CLOSED = -1
UNAUTHENTICATED = b"CLIENT_ERROR unauthenticated"
FAILURE = b"CLIENT_ERROR authentication failure"
LOGIN = login(b"user", b"password")
WRONG = login(b"user", b"wrong")

Step = tuple[bytes, int]
"""A request, and how many lines answer it, or CLOSED."""

# Before a login.
REFUSED: list[Step] = [
    *((line + b"\r\n", 1) for line in (b"get a", b"gets a b", b"gat 0 a", b"delete a", b"incr a 1", b"touch a 0")),
    *((line + b"\r\n", 1) for line in (b"quit", b"version", b"stats", b"stats settings", b"verbosity 1", b"flush_all")),
    *((line + b"\r\n", 1) for line in (b"mn", b"mg a v", b"md a q", b"ma a", b"me a", b"watch", b"shutdown", b"lru x")),
    (b"delete a noreply\r\n", 1),
    (b"\r\n", 1),
    (b"nonsense\n", 1),
    (b"get a\n", 1),
    (b"add k 0 0 13\r\n", 1),
    (b"user password\r\n", 1),
    (b"ms k 13\r\n", 1),
    (b"SET k 0 0 13\r\n", 1),
    (b"set k 0 13\r\n", 1),
    (b"set k 0 0 x\r\n", 1),
    (b"set k 0 0 -1\r\n", 1),
    (b"set k 0 0 13x\r\n", 1),
    (b"set\r\n", 1),
    (b"x" * 2047 + b"\n", 1),
    (WRONG, 1),
    (login(b"other", b"password"), 1),
    (login(b"user", b"passwor"), 1),
    (login(b"user", b"password\r"), 1),
    (login(b"user", b"Password"), 1),
    (b"set k 0 0 10 noreply\r\nuser wrong\r\n", 1),
    (b"set k 0 0 4\r\nuser\r\n", 1),
    (b"set k 0 0 0\r\n\r\n", 1),
    (b"set k 0 0 -0\r\n\r\n", 1),
    (b"set k 0 0 2\r\n  \r\n", 1),
    (b"set k 0 0 13\r\nuser\tpassword\r\n", 1),
    (b"set k 0 0 13\r\nuser passwordXX", 1),
    (b"set k 0 0 13\r\nuser password\n\n", 1),
    (b"set k 0 0 2046\r\n" + b"x" * 2046 + b"\r\n", 1),
]

# Each of them logs in.
TAKEN: list[Step] = [
    (LOGIN, 1),
    (login(b"third", b"with:colon"), 1),
    (login(b"user", b"second"), 1),
    (b"set k 0 0 13 noreply\r\nuser password\r\n", 1),
    (b"  set   k x y   +13  and more\nuser password\r\n", 1),
    (b"set k 0 0 23\r\n  user   password  more\r\n", 1),
    (b"set k 0 0 15\r\nuser password\0x\r\n", 1),
    (b"set k 0 0 13\0 5\r\nuser password\r\n", 1),
    (b"set k 0 0 4294967309\r\nuser password\r\n", 1),
    (b"set k 0 0 00013\r\nuser password\r\n", 1),
    (b"set " + b"k" * 400 + b" 0 0 13\r\nuser password\r\n", 1),
    (b"set k 0 0 13 " + b"a " * 30 + b"\r\nuser password\r\n", 1),
    (b"set k 0 0 2046\r\n" + b"user password".ljust(2046) + b"\r\n", 1),
]

# Behind a login.
SERVED: list[Step] = [
    (b"get login-a\r\n", 1),
    (LOGIN, 1),
    (b"get login\r\n", 3),
    (login(b"user", b"wrong", b"login-b"), 1),
    (b"get login-b\r\n", 3),
    (b"delete login\r\n", 1),
    (b"delete login-b\r\n", 1),
    (b"mn\r\n", 1),
    (b"nonsense\r\n", 1),
]

# The connection ends at it.
ENDS: list[Step] = [
    (b"x" * 2049, CLOSED),
    (b"set k 0 0 16383\r\n" + b"x" * 16385, CLOSED),
    (b"set k 0 0 1000000\r\n" + b"x" * 20000, CLOSED),
]


@pytest.fixture
def subjects(stack: ExitStack, start_proxy: StartProxy, tmp_path: Path) -> dict[str, Address]:
    passwords = write_passwords(
        tmp_path / "passwords", "user:password", "third:with:colon", "user:second", "fourth:password"
    )
    memcached = stack.enter_context(Memcached("-Y", str(passwords)))
    memcached.wait_ready(memcached.address)
    proxy = start_proxy("--auth-file", str(passwords), "--auth-timeout", "0s")
    return {"memcached": memcached.address, "weir": proxy.address}


def answers(address: Address, steps: list[Step], cut: int | None = None) -> list[bytes]:
    """What is read to each step, sent when the one before is answered; in the end whether anything more came."""
    found = []
    with Wire(address) as wire:
        for request, lines in steps:
            if lines == CLOSED:
                wire.try_send(request)
                found.append(wire.until(b"never comes")[0])
                return found
            place = len(request) if cut is None else min(cut, len(request))
            wire.send(request[:place])
            wire.send(request[place:])
            found += [wire.line() for _ in range(lines)]
        # Were there a line more, it would be read here.
        wire.send(b"version\r\n")
        found.append(wire.line())
    return found


def assert_same(subjects: dict[str, Address], steps: list[Step], cut: int | None = None) -> list[bytes]:
    expected = answers(subjects["memcached"], steps, cut)
    assert answers(subjects["weir"], steps, cut) == expected, (steps, cut)
    return expected


def test_what_is_refused_before_a_login(subjects: dict[str, Address]) -> None:
    for step in REFUSED:
        said = assert_same(subjects, [step])
        assert all(line.startswith(b"CLIENT_ERROR ") for line in said), (step, said)
        assert assert_same(subjects, [step, (LOGIN, 1), *SERVED])[len(said) - 1] == b"STORED"
    assert_same(subjects, REFUSED)


def test_what_logs_in(subjects: dict[str, Address]) -> None:
    for step in TAKEN:
        assert assert_same(subjects, [step, *SERVED])[0] == b"STORED", step
        assert_same(subjects, [(WRONG, 1), step, *SERVED])


def test_what_ends_the_connection(subjects: dict[str, Address]) -> None:
    for step in ENDS:
        assert assert_same(subjects, [(WRONG, 1), step]) == [FAILURE, b""]


def test_requests_that_are_cut_anywhere(subjects: dict[str, Address]) -> None:
    steps: list[Step] = [(b"get a\r\n", 1), (WRONG, 1), (b"set k 0 0 4\r\nuser\r\n", 1), (LOGIN, 1), (b"get a\r\n", 1)]
    for cut in range(1, len(LOGIN)):
        assert_same(subjects, steps, cut)


def shuffled(rng: random.Random) -> Iterator[Step]:
    yield from rng.choices(REFUSED, k=rng.randrange(6))
    if rng.random() < 0.8:
        yield rng.choice(TAKEN)
        yield from SERVED[: rng.randrange(len(SERVED))]
    elif rng.random() < 0.5:
        yield rng.choice(ENDS)


def test_random_sessions(subjects: dict[str, Address]) -> None:
    rng = random.Random(7)
    for _ in range(150):
        steps = list(shuffled(rng))
        assert_same(subjects, steps, rng.choice([None, *range(1, 30)]))


def test_each_request_is_answered_however_they_come(subjects: dict[str, Address]) -> None:
    sent = b"get a\r\n" + WRONG + LOGIN + b"get a\r\nmn\r\n"
    merged = [b"STORED", b"END", b"MN"]
    expected = {"memcached": merged, "weir": [UNAUTHENTICATED, FAILURE, *merged]}
    for name, lines in expected.items():
        with Wire(subjects[name]) as wire:
            wire.send(sent)
            assert [wire.line() for _ in lines] == lines, name
            wire.send(b"version\r\n")
            assert wire.line().startswith(b"VERSION ")


def test_a_first_value_that_is_no_login_is_thrown_away(subjects: dict[str, Address]) -> None:
    """memcached keeps it, and looks for words in it; Weir keeps 2 KiB for a login, and lets a longer one go by."""
    sent = b"set a 0 0 9000\r\n" + b"x" * 9000 + b"\r\n"
    expected = {"memcached": b"CLIENT_ERROR bad authentication token format", "weir": FAILURE}
    for name, line in expected.items():
        with Wire(subjects[name]) as wire:
            wire.send(sent)
            assert wire.line() == line
            wire.send(LOGIN)
            assert wire.line() == b"STORED"
