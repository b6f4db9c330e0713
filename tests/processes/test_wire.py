"""What is on the wire, byte by byte: first against memcached itself, then through the proxy."""

from __future__ import annotations

import itertools
from contextlib import ExitStack

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.processes import Address, Memcached

pytestmark = pytest.mark.every_engine

KEYS = [b"key:%04d" % number for number in range(1000)]


def value_of(key: bytes) -> bytes:
    """A value that names its key, with a length of its own, so that a mixed-up reply cannot look right."""
    return b"<" + key + b">" * (1 + int(key[-4:]) % 97)


def test_every_byte_alone(subject: Address, connect: Connect) -> None:
    """A conversation sent one byte at a time is answered as if it had come whole."""
    wire = connect(subject)
    value = b"END\r\nVALUE \r\n"  # looks like protocol
    conversation = (
        b"set key 5 0 %d\r\n%b\r\n" % (len(value), value) + b"get key\r\n"
        b"set silent 0 0 3 noreply\r\nabc\r\n"
        b"gets silent absent\r\n"
        b"set key 0 0 3\r\nabcd\r\n"
        b"incr silent 1\r\n"
        b"delete key noreply\r\n"
        b"get key silent\r\n"
    )
    for byte in conversation:
        wire.send(bytes([byte]))
    assert wire.line() == b"STORED"
    assert wire.line() == b"VALUE key 5 %d" % len(value)
    assert wire.exactly(len(value) + 2) == value + b"\r\n"
    assert wire.line() == b"END"
    assert wire.values() == [(b"silent", b"abc")]
    assert wire.line() == b"CLIENT_ERROR bad data chunk"
    assert wire.line() == b"ERROR"
    assert wire.line() == b"CLIENT_ERROR cannot increment or decrement non-numeric value"
    assert wire.values() == [(b"silent", b"abc")]
    wire.in_step()


def test_a_value_cut_at_every_byte(subject: Address, connect: Connect) -> None:
    wire = connect(subject)
    command = b"set key 0 0 7\r\nab\r\ncd\r\r\n"
    for cut in range(1, len(command)):
        wire.send(command[:cut])
        wire.send(command[cut:])
        assert wire.line() == b"STORED"
        assert wire.get(b"key") == [(b"key", b"ab\r\ncd\r")]
    wire.in_step()


def test_a_thousand_requests_in_one_write(subject: Address, connect: Connect) -> None:
    wire = connect(subject)
    wire.send(b"".join(b"set %b 0 0 %d\r\n%b\r\n" % (key, len(value_of(key)), value_of(key)) for key in KEYS))
    assert [wire.line() for _ in KEYS] == [b"STORED"] * len(KEYS)
    wire.send(b"".join(b"get %b\r\n" % key for key in KEYS))
    assert [wire.values() for _ in KEYS] == [[(key, value_of(key))] for key in KEYS]
    wire.in_step()


def test_a_thousand_keys_in_one_get(subject: Address, connect: Connect) -> None:
    """Values come back in request order, misses leave no gap, a key asked twice comes twice."""
    wire = connect(subject)
    stored = KEYS[::3]
    for key in stored:
        assert wire.store(key, value_of(key)) == b"STORED"
    asked = [*reversed(KEYS), KEYS[0], KEYS[0]]
    assert wire.get(*asked) == [(key, value_of(key)) for key in asked if key in set(stored)]
    wire.in_step()


def test_noreply_storm(subject: Address, connect: Connect) -> None:
    """Thousands of silent writes between few loud ones: nothing extra is said, and the last write wins."""
    wire = connect(subject)
    for round_number in range(20):
        batch = [
            b"set %b 0 0 4 noreply\r\n%04d\r\n" % (key, (number + round_number) % 10000)
            for number, key in enumerate(KEYS)
        ]
        wire.send(b"".join(batch))
        wire.send(b"incr absent 1 noreply\r\ndelete absent noreply\r\nadd %b 0 0 1 noreply\r\nx\r\n" % KEYS[0])
    assert wire.get(*KEYS) == [(key, b"%04d" % (number + 19)) for number, key in enumerate(KEYS)]
    wire.in_step()


def test_loud_and_silent_requests_in_one_write(subject: Address, connect: Connect) -> None:
    wire = connect(subject)
    for key in KEYS[:200]:
        wire.send(
            b"set %b 0 0 1 noreply\r\n1\r\nincr %b 4\r\nappend %b 0 0 1 noreply\r\n0\r\nget %b\r\n" % ((key,) * 4)
        )
    for key in KEYS[:200]:
        assert wire.line() == b"5"
        assert wire.values() == [(key, b"50")]
    wire.in_step()


def test_interleaved_sessions_stay_apart(subject: Address, connect: Connect) -> None:
    """Many sessions with half a request each: every one gets its own reply, in whatever order they are completed."""
    wires = [connect(subject) for _ in range(50)]
    for key, wire in zip(KEYS, wires, strict=False):
        assert wire.store(key, value_of(key)) == b"STORED"
    for key, wire in zip(KEYS, wires, strict=False):
        wire.send(b"get " + key)
    for wire in reversed(wires):
        wire.send(b"\r\n")
    for key, wire in zip(KEYS, wires, strict=False):
        assert wire.values() == [(key, value_of(key))]


def test_a_client_that_leaves_in_the_middle(subject: Address, connect: Connect) -> None:
    """Half a request or an unread reply of one client harms no other."""
    staying = connect(subject)
    assert staying.store(b"key", b"value" * 1000) == b"STORED"
    for left_behind in (b"set key 0 0 100\r\nhalf", b"get key\r\n" * 100, b"get k", b"set key 0 0 5 noreply\r\n"):
        leaving = connect(subject)
        leaving.send(left_behind)
        leaving.close()
        assert staying.get(b"key") == [(b"key", b"value" * 1000)]
    staying.in_step()


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        (b"no_such_command", b"ERROR"),
        (b"", b"ERROR"),
        (b"get", b"ERROR"),
        (b"get " + b"k" * 251, b"CLIENT_ERROR bad command line format"),
        (b"get a " + b"k" * 251, b"CLIENT_ERROR bad command line format"),
        (b"set key 0 0 abc", b"CLIENT_ERROR bad command line format"),
        (b"set key 0 0 -1", b"CLIENT_ERROR bad command line format"),
        (b"incr key abc", b"CLIENT_ERROR invalid numeric delta argument"),
        (b"touch key abc", b"CLIENT_ERROR invalid exptime argument"),
        (b"verbosity", b"ERROR"),
        (b"verbosity 1", b"OK"),
        (b"verbosity noreply\r\nget absent", b"END"),
        (b"verbosity 1 noreply\r\nget absent", b"END"),
        (b"  get absent", b"END"),
    ],
)
def test_a_client_that_errs(subject: Address, connect: Connect, command: bytes, reply: bytes) -> None:
    wire = connect(subject)
    wire.send(command + b"\r\n")
    assert wire.line() == reply
    wire.in_step()


def test_meta_commands(subject: Address, connect: Connect) -> None:
    wire = connect(subject)
    assert wire.ask(b"mn") == b"MN"
    assert wire.ask(b"mg absent v") == b"EN"
    assert wire.ask(b"ms key 5 F7\r\nvalue") == b"HD"
    assert wire.ask(b"mg key v f k O1") == b"VA 5 f7 kkey O1"
    assert wire.line() == b"value"
    assert wire.ask(b"ma key") == b"CLIENT_ERROR cannot increment or decrement non-numeric value"
    wire.send(b"mg absent v q\r\nmg key v q\r\nmn\r\n")
    assert (wire.line(), wire.line(), wire.line()) == (b"VA 5", b"value", b"MN")
    assert wire.ask(b"md key") == b"HD"
    assert wire.ask(b"md key") == b"NF"
    assert wire.ask(b"me key") == b"EN"
    wire.in_step()


def test_version_takes_any_words(subject: Address, connect: Connect) -> None:
    wire = connect(subject)
    for command in (b"version", b"version foo bar", b"version noreply"):
        assert wire.ask(command).startswith(b"VERSION ")
    wire.in_step()


def test_get_and_touch(subject: Address, connect: Connect) -> None:
    wire = connect(subject)
    for key in KEYS[:20]:
        assert wire.store(key, value_of(key)) == b"STORED"
    wire.send(b"gat 100 " + b" ".join(KEYS[:20]) + b" absent\r\n")
    assert wire.values() == [(key, value_of(key)) for key in KEYS[:20]]
    wire.send(b"gats 100 " + KEYS[0] + b"\r\n")
    line = wire.line().split(b" ")
    assert line[:2] == [b"VALUE", KEYS[0]]
    assert len(line) == 5
    assert wire.exactly(len(value_of(KEYS[0])) + 2) == value_of(KEYS[0]) + b"\r\n"
    assert wire.line() == b"END"
    wire.send(b"gat -1 " + KEYS[0] + b"\r\n")
    wire.values()
    assert wire.get(KEYS[0]) == []
    wire.in_step()


def test_lines_may_end_bare(subject: Address, connect: Connect) -> None:
    wire = connect(subject)
    wire.send(b"set key 0 0 5\nvalue\r\nget key\n")
    assert wire.line() == b"STORED"
    assert wire.values() == [(b"key", b"value")]
    wire.in_step()


@pytest.mark.parametrize("command", [b"quit\r\n", b"quit foo bar\r\n", b"get absent\r\nquit\r\nget absent\r\n"])
def test_quit_closes(subject: Address, connect: Connect, command: bytes) -> None:
    wire = connect(subject)
    wire.send(command)
    if command.startswith(b"get"):
        assert wire.line() == b"END"
    assert wire.ended()


def test_half_closed_client_gets_its_replies(subject: Address, connect: Connect) -> None:
    """A client that shuts down its sending side after its requests still reads every reply."""
    wire = connect(subject)
    for key in KEYS[:50]:
        assert wire.store(key, value_of(key)) == b"STORED"
    wire.send(b"".join(b"get %b\r\n" % key for key in itertools.islice(KEYS, 50)))
    wire.finish_sending()
    assert [wire.values() for _ in range(50)] == [[(key, value_of(key))] for key in KEYS[:50]]
    assert wire.ended()


def test_flush_all_is_refused_as_by_a_memcached_that_forbids_it(
    stack: ExitStack, start_proxy: StartProxy, connect: Connect
) -> None:
    forbidding = stack.enter_context(Memcached("-F"))
    forbidding.wait_ready(forbidding.address)
    for address in (forbidding.address, start_proxy().address):
        wire = connect(address)
        wire.send(b"flush_all\r\nflush_all noreply\r\nflush_all 10\r\nmn\r\n")
        refused = b"CLIENT_ERROR flush_all not allowed"
        assert [wire.line() for _ in range(3)] == [refused, refused, b"MN"], address


def test_a_client_that_finishes_while_its_session_is_paused_is_closed(subject: Address, connect: Connect) -> None:
    """Regression: the end of the stream came while nothing was read, and not reported again when reading went on."""
    for count in (1024, 1025, 3000):
        wire = connect(subject)
        wire.send(b"mn\r\n" * count)
        wire.finish_sending()
        assert [wire.line() for _ in range(count)] == [b"MN"] * count
        assert wire.ended()
