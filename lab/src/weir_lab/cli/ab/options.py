"""Words of the command line of ``weir-lab ab``: times, shares, cores. Each function raises `StudyError` that says what to write."""

from __future__ import annotations

import re
import shlex

from pydantic import ValidationError

from weir_lab.design.topology import Cores
from weir_lab.errors import StudyError

__all__ = ["default_cores", "read_cores", "read_flags", "read_levels", "read_share", "read_time_s"]

_SCALES = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_TIME = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h)")
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%")
_ROLE = re.compile(r"(client|proxy|servers)=([0-9]{1,4}(?:,[0-9]{1,4})*)")
_CLIENTS_MAX = 4096
# What the comparison itself sets or reads; another value would change what is measured behind its back.
_OWN_FLAGS = (
    *("--target", "--json", "--hdr", "--duration", "--warmup", "--no-prefill", "--requests", "--replay", "--fail-if"),
    *("--connections", "--depth", "--threads", "--seed", "--writes", "--keys", "--value-size", "--start-at"),
)


def read_time_s(flag: str, text: str) -> float:
    """A time such as ``80ms``, ``90s`` or ``6m``, in seconds.

    >>> read_time_s("--budget", "6m")
    360.0
    """
    match = _TIME.fullmatch(text.strip())
    if match is None or float(match[1]) == 0.0:
        raise StudyError(f"{flag} {text!r}: not a time. Write 80ms, 90s, 6m or 1h.")
    return float(match[1]) * _SCALES[match[2]]


def read_share(flag: str, text: str, most: float) -> float:
    """A share such as ``2%``, above 0 and below `most`.

    >>> read_share("--same-within", "2%", 1.0)
    0.02
    """
    match = _SHARE.fullmatch(text.strip())
    if match is None or not 0.0 < float(match[1]) / 100.0 < most:
        raise StudyError(f"{flag} {text!r}: write a percentage above 0 % and below {100.0 * most:g} %, such as 2%.")
    return float(match[1]) / 100.0


def read_cores(text: str, available: list[int]) -> Cores:
    """``auto``, ``none``, or ``client=0 proxy=1 servers=1``; `available` are the cores that this process may use.

    >>> read_cores("client=0 proxy=1 servers=0,1", [0, 1]).server
    (0, 1)
    """
    if text == "auto":
        return default_cores(available)
    if text == "none":
        return Cores()
    found: dict[str, tuple[int, ...]] = {}
    for word in text.split():
        match = _ROLE.fullmatch(word)
        if match is None:
            raise StudyError(
                f"--cores {text!r}: {word!r} is not a role. Write auto, none, or client=0 proxy=1 servers=1."
            )
        cores = tuple(int(core) for core in match[2].split(","))
        absent = sorted(set(cores) - set(available))
        if absent:
            raise StudyError(f"--cores {text!r}: there is no core {absent[0]} here; this process may use {available}.")
        found["server" if match[1] == "servers" else match[1]] = cores
    try:
        return Cores(**found)
    except ValidationError as error:
        raise StudyError(f"--cores {text!r}: {error.errors()[0]['msg']}.") from error


def default_cores(available: list[int]) -> Cores:
    """One core for each role where there are three; the generator alone on one of two; one core cannot be shared out.

    With two cores the proxy under test and the servers share one, so that the core that decides is the one that the proxy is on.

    >>> default_cores([0, 1])
    Cores(client=(0,), proxy=(1,), server=(1,), network=())
    """
    if len(available) < 2:
        return Cores()
    client, proxy = available[0], available[1]
    return Cores(client=(client,), proxy=(proxy,), server=tuple(available[2:]) or (proxy,))


def read_levels(text: str) -> tuple[int, ...]:
    """Numbers of clients such as ``16`` or ``1,4,16,64``.

    >>> read_levels("1,4,16")
    (1, 4, 16)
    """
    words = text.split(",")
    if not all(re.fullmatch(r"[0-9]{1,4}", word) and 1 <= int(word) <= _CLIENTS_MAX for word in words):
        raise StudyError(
            f"--clients {text!r}: write numbers from 1 to {_CLIENTS_MAX} with commas between, such as 1,4,16,64."
        )
    levels = tuple(int(word) for word in words)
    if len(set(levels)) < len(levels):
        raise StudyError(f"--clients {text!r}: each number once.")
    return levels


def read_flags(text: str) -> tuple[str, ...]:
    """More flags of ``weir load``, as they would stand on its command line."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise StudyError(f"--load {text!r} cannot be cut into words ({error}). Close its quotes.") from error
    for word in words:
        if word.split("=", maxsplit=1)[0] in _OWN_FLAGS:
            raise StudyError(
                f"--load {text!r}: {word} is set by the comparison itself. Leave it out, or use the option of weir-lab ab."
            )
    return tuple(words)
