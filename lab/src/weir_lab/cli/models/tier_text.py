"""Tiers as a command line writes them: ``proxy:10us+-1us:servers=4`` is a `capacity.Tier`.

``NAME:TIME`` and options behind it. TIME is a service time (``80us``, ``2ms``), with ``+-`` and the half-width of its 95 % interval if that
is known, or ``@RATE`` for a link (``@1Gbit``): then it is the time of a value on the wire, of constant length.
"""

from __future__ import annotations

import re

from weir_lab.errors import StudyError
from weir_lab.theory.capacity import Tier

__all__ = ["TIER_HELP", "read_seconds", "read_tier"]

TIER_HELP = (
    "NAME:TIME or NAME:@RATE (a link, such as @1Gbit), then options :units=K :servers=M :visits=V :imbalance=I :cv2=C "
    ":per_kib=TIME :replicas=R :needed=W :writes=SHARE :hottest=SHARE (of the requests, for one key) :keyed (hottest= from "
    "--popularity and --keys); TIME may be 10us+-1us. Such as proxy:12us:servers=4; repeat for each tier"
)
_TIME = r"([0-9]{1,12}(?:\.[0-9]{1,12})?)(ns|us|µs|ms|s)"
_SCALES = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_RATES = {"kbit": 1e3, "Mbit": 1e6, "Gbit": 1e9}
# Ethernet, IP and TCP headers of one packet; a value of several packets pays them again per 1,448 bytes.
_HEADER_BYTES = 66
_PACKET_BYTES = 1448
_WHOLE = {"servers", "units", "replicas", "needed"}


def read_tier(text: str, value_bytes: int = 0, hottest: float | None = None) -> Tier:
    """A tier for values of this size; ``hottest`` is what `keyed` stands for. `StudyError` says what is wrong.

    >>> round(read_tier("proxy:10us:per_kib=2us:servers=4", 4096).service_time_s * 1e6, 6)
    18.0
    """
    if not 0 <= value_bytes <= 1 << 30:
        raise StudyError(f"--value takes a size from 0 to 1 GiB in bytes, not {value_bytes}.")
    name, _, rest = text.partition(":")
    time, *options = rest.split(":")
    known: dict[str, float] = {"servers": 1, "units": 1, "visits": 1.0, "imbalance": 1.0, "replicas": 1}
    known |= {"writes": 0.0, "hottest": 0.0}
    is_link = time.startswith("@")
    per_kib = 0.0
    for option in options:
        key, _, value = option.partition("=")
        if option == "keyed":
            if hottest is None:
                raise StudyError(
                    f"--tier {text!r}: keyed needs --popularity and --keys, or say :hottest=SHARE instead."
                )
            known["hottest"] = hottest
        elif key == "per_kib" and not is_link:
            per_kib = read_seconds(value)
        elif key in {*known, "needed", "cv2"} and re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value):
            known[key] = float(value)
            if key in _WHOLE and not known[key].is_integer():
                raise StudyError(f"--tier {text!r}: {key}= takes a whole number.")
        else:
            raise StudyError(
                f"--tier {text!r}: {option!r} is not one of servers=, units=, visits=, imbalance=, cv2=, replicas=, needed=, writes=, "
                "hottest= with a number, per_kib= with a time, or keyed."
            )
    seconds, error = (_on_the_wire(text, time, value_bytes), 0.0) if is_link else _with_error(time)
    try:
        return Tier(
            name,
            seconds + per_kib * value_bytes / 1024.0,
            int(known["servers"]),
            known["visits"],
            int(known["units"]),
            known["imbalance"],
            error,
            known.get("cv2", 0.0 if is_link else 1.0),
            int(known["replicas"]),
            int(known["needed"]) if "needed" in known else None,
            known["writes"],
            known["hottest"],
        )
    except ValueError as error_of_tier:
        raise StudyError(str(error_of_tier)) from error_of_tier


def read_seconds(text: str) -> float:
    """A time such as ``80us``, ``2ms`` or ``1.5s``."""
    match = re.fullmatch(_TIME, text.strip())
    if match is None:
        raise StudyError(f"{text!r} is not a time such as 80us, 2ms or 1.5s.")
    return float(match[1]) * _SCALES[match[2]]


def _with_error(text: str) -> tuple[float, float]:
    time, _, error = text.partition("+-")
    return read_seconds(time), read_seconds(error) if error else 0.0


def _on_the_wire(text: str, rate: str, value_bytes: int) -> float:
    match = re.fullmatch(r"@([0-9]{1,9}(?:\.[0-9]{1,9})?)(kbit|Mbit|Gbit)", rate)
    if match is None or float(match[1]) <= 0.0:
        raise StudyError(f"--tier {text!r}: {rate!r} is not a rate such as @100Mbit or @1Gbit.")
    if value_bytes == 0:
        raise StudyError(f"--tier {text!r}: a link needs --value, the bytes that it carries per visit.")
    packets = -(-value_bytes // _PACKET_BYTES)
    return 8.0 * (value_bytes + packets * _HEADER_BYTES) / (float(match[1]) * _RATES[match[2]])
