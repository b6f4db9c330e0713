"""What a column or a quantity is called, read into one name and one unit: `read_name`. Pure.

``latency_ms``, ``Mean response time [ms]`` and ``avg_rt_us`` are all the mean response time. A part of a name that says what of the
quantity is printed (``sd``, ``half_width``, ``p99``, ``low``) and what it is about (``get``) are kept apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from weir_lab.errors import RecordError

__all__ = ["KINDS", "SUFFIXES", "Named", "bare_name", "holds_numbers", "read_name", "si_scale", "suffix_of"]

# Endings of headings whose numbers the rules know by the whole heading, and what they are in SI units.
SUFFIXES = (
    ("_mbit_s", 1e6),
    ("_ops_s", 1.0),
    ("_rps", 1.0),
    ("_percent", 1.0),
    ("_bytes", 1.0),
    ("_ms", 1e-3),
    ("_us", 1e-6),
    ("_s", 1.0),
)
# Numbers of 2^k r tables, of the long form, and of overheads.
_NUMBER_COLUMNS = {"value", "mean", "effect", "sum_of_squares", "percent_of_sst", "baseline", "with_middleware"}

_UNITS = {
    **dict.fromkeys(
        ("rps", "ops_s", "req_s", "reqs_s", "requests_s", "qps", "tps", "per_s", "ops_per_s", "hz"), ("rate", 1.0)
    ),
    **dict.fromkeys(
        ("requests_per_s", "req_per_s", "1_s", "ops_sec", "ops_per_sec", "requests_per_sec", "req_per_sec"),
        ("rate", 1.0),
    ),
    **dict.fromkeys(("krps", "kops_s", "kqps", "kops"), ("rate", 1e3)),
    **dict.fromkeys(("ns", "nsec"), ("time", 1e-9)),
    **dict.fromkeys(("us", "usec", "µs", "μs"), ("time", 1e-6)),
    **dict.fromkeys(("ms", "msec"), ("time", 1e-3)),
    **dict.fromkeys(("s", "sec", "seconds"), ("time", 1.0)),
    **dict.fromkeys(("percent", "pct"), ("share", 0.01)),
}
_QUANTITIES = {
    "throughput": "throughput tput thruput x rate qps tps rps ops requests_per_second achieved achieved_rate completed_rate",
    "response_time": "response_time latency rt r residence_time sojourn_time",
    "think_time": "think_time think thinktime z",
    "arrival_rate": "arrival_rate lambda λ",
    "offered_rate": "offered_rate offered offered_load target_rate target requested_rate",
    "service_rate": "service_rate mu μ",
    "service_time": "service_time s_time",
    "utilization": "utilization utilisation util rho ρ u busy",
    "waiting_time": "waiting_time wait_time wait w queueing_time queuing_time",
    "jobs_in_system": "jobs_in_system number_in_system jobs l_system",
    "jobs_in_queue": "jobs_in_queue number_in_queue nq n_q lq l_q",
    "prob_queueing": "prob_queueing probability_of_queueing erlang_c p_wait pq c",
    "clients": "clients total_clients connections users virtual_users virtual_clients vusers population concurrency",
    "depth": "depth pipeline pipelining outstanding",
    "servers": "servers_m m",
    "runs": "runs n repetitions reps samples_n",
}
_NAMES = {name: quantity for quantity, names in _QUANTITIES.items() for name in names.split()}
_WEAK = {
    "busy",
    "jobs",
    "rate",
    "ops",
    "wait",
    "waiting",
    "target",
    "think",
    "reps",
    "outstanding",
    "offered",
    "achieved",
}
_COUNTS = {"clients", "depth", "servers", "runs"}
# Units that a quantity may have: a "rate" in ms is none.
KINDS = {
    "throughput": "rate", "arrival_rate": "rate", "offered_rate": "rate", "service_rate": "rate",
    "response_time": "time", "think_time": "time", "service_time": "time", "waiting_time": "time",
    "utilization": "share", "prob_queueing": "share",
}  # fmt: skip
_PLAIN_KINDS = {"rate", "share"}
_STATISTICS = (
    ("half_width", r"half_width|ci95|ci_95|ci|margin|plus_minus|conf|confidence"),
    ("sd", r"sd|std|stdev|stddev|std_dev|standard_deviation"),
    ("low", r"low|lower|ci_low|lcl"),
    ("high", r"high|upper|ci_high|ucl"),
)
_MEAN = r"mean|avg|average"
_PERCENTILE = re.compile(
    r"(?:^|_)(?:p(\d{1,2}(?:[._]\d{1,3})?|999|9999|100)|(\d{2}(?:\.\d+)?)th(?:_percentile)?|(median|min|minimum|max|maximum))(?=_|$)"
)
_EXTREMES = {"median": 50.0, "min": 0.0, "minimum": 0.0, "max": 100.0, "maximum": 100.0}


@dataclass(frozen=True)
class Named:
    """``quantity`` in SI units by ``scale``; ``statistic`` is mean, sd, half_width, low, high or a percentile; ``about`` is the rest."""

    quantity: str
    scale: float
    statistic: str = "mean"
    about: str = ""
    percent: float | None = None

    @property
    def counted(self) -> bool:
        """Whether it is a whole number that was set."""
        return self.quantity in _COUNTS


def read_name(text: str) -> Named | None:
    """The quantity that a heading names; None for what is none of the known ones.

    >>> read_name("Mean latency [ms]")
    Named(quantity='response_time', scale=0.001, statistic='mean', about='', percent=None)
    """
    name = _plain(text)
    rest, kind, scale = _without_unit(name)
    rest, percent = _without_percentile(rest)
    rest, statistic = _without_statistic(rest)
    words = [word for word in rest.split("_") if word]
    for size in range(len(words), 0, -1):
        for start in range(len(words) - size + 1):
            quantity = _NAMES.get("_".join(words[start : start + size]))
            about = "_".join(words[:start] + words[start + size :])
            # A single letter, or a word of many meanings, is a quantity only where nothing else stands beside it.
            found = "_".join(words[start : start + size])
            if quantity is not None and (not about or (len(found) > 1 and found not in _WEAK)):
                return _checked(quantity, kind, scale, statistic, about, percent, bare=name == "_".join(words))
    if percent is not None and kind == "time":
        return Named("response_time", scale, "percentile", "_".join(words), percent)
    if kind == "rate" and not words:
        return Named("throughput", scale, statistic)
    if (
        kind == "time"
        and statistic in ("mean", "sd", "half_width", "low", "high")
        and re.search(rf"(^|_)({_MEAN})(_|$)", name)
    ):
        return Named("response_time", scale, statistic, "_".join(words))
    return None


def holds_numbers(heading: str) -> bool:
    """Whether numbers are expected under a heading.

    >>> holds_numbers("Mean latency [ms]"), holds_numbers("colour")
    (True, False)
    """
    return (
        heading in _NUMBER_COLUMNS
        or any(heading.endswith(suffix) for suffix, _ in SUFFIXES)
        or read_name(heading) is not None
    )


def bare_name(heading: str) -> str:
    """The words of a heading without its unit.

    >>> bare_name("Rate (ops/s)")
    'rate'
    """
    return _without_unit(_plain(heading))[0]


def _plain(text: str) -> str:
    return re.sub(r"[^0-9a-zµμλρ.]+", "_", text.strip().lower()).strip("_").replace("/", "_")


def _checked(
    quantity: str, kind: str, scale: float, statistic: str, about: str, percent: float | None, *, bare: bool
) -> Named | None:
    wanted = KINDS.get(quantity, "")
    if kind != wanted and not (kind == "" and (wanted in _PLAIN_KINDS or not wanted)):
        return None
    if quantity in ("jobs_in_system",) and kind == "" and not bare and about not in ("predicted", "observed", ""):
        return None
    return Named(quantity, scale, "percentile" if percent is not None else statistic, about, percent)


def _without_unit(name: str) -> tuple[str, str, float]:
    for unit in sorted(_UNITS, key=len, reverse=True):
        if name.endswith("_" + unit):
            return name[: -len(unit) - 1], *_UNITS[unit]
    for unit in ("rps", "qps", "tps"):
        if name == unit:
            return "", *_UNITS[unit]
    return name, "", 1.0


def _without_percentile(name: str) -> tuple[str, float | None]:
    match = _PERCENTILE.search(name)
    if match is None:
        return name, None
    if match[3]:
        percent = _EXTREMES[match[3]]
    else:
        digits = (match[1] or match[2]).replace("_", ".")
        percent = {"999": 99.9, "9999": 99.99}.get(digits, float(digits))
    return (name[: match.start()] + "_" + name[match.end() :]).strip("_"), percent


def _without_statistic(name: str) -> tuple[str, str]:
    bare = re.sub(rf"(^|_)({_MEAN})(?=_|$)", "", name).strip("_")
    for statistic, pattern in _STATISTICS:
        match = re.search(rf"(^|_)({pattern})$", bare)
        if match is not None and match.start() > 0:
            return bare[: match.start()].strip("_"), statistic
    return bare, "mean"


# Units of long tables. One that nobody knows makes a number a thousand times too large or small, and then every law seems broken: so it
# is an error by line.
_COUNTED = (
    "",
    "op",
    "ops",
    "operations",
    "req",
    "reqs",
    "requests",
    "queries",
    "transactions",
    "commands",
    "keys",
    "jobs",
)
# Spelling -> the ending that a heading of the wide form has; "1" is a number without a unit.
_SUFFIXES = {
    "": "",
    **dict.fromkeys(("1", "-", "jobs", "requests", "clients", "threads", "workers", "servers"), "1"),
    **dict.fromkeys(("%", "percent", "pct"), "percent"),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), "ns"),
    **dict.fromkeys(("us", "µs", "usec", "microsecond", "microseconds"), "us"),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("s", "sec", "second", "seconds"), "s"),
    **dict.fromkeys(("rps", "qps", "tps", "hz", "1/s", "1/sec"), "rps"),
    **{f"{what}/{per}": "rps" for what in _COUNTED for per in ("s", "sec", "second")},
    **dict.fromkeys(("krps", "kqps", "ktps", "khz", "1/ms"), "krps"),
    **{f"k{what}/{per}": "krps" for what in _COUNTED for per in ("s", "sec", "second")},
    **{f"{what}/ms": "krps" for what in _COUNTED},
}
_SCALES = {"": 1.0, "1": 1.0, "percent": 0.01, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "rps": 1.0, "krps": 1e3}
_OF_KIND = {
    "rate": ({"rps", "krps"}, "1/s, ops/s or kops/s"),
    "time": ({"ns", "us", "ms", "s"}, "ns, us, ms or s"),
    "share": ({"1", "percent"}, "1 or %"),
    "count": ({"1"}, "jobs or 1"),
}
# Quantities that rules know by name.
_RULED = (
    ("rate", re.compile(r"throughput(_\w+)?|(arrival|service|offered)_rate")),
    ("time", re.compile(r"(response|waiting|think)_time|service_time(_\w+)?|time_in_queue|time_waiting_for_memcached")),
    ("share", re.compile(r"utilization(_\w+)?|prob_queueing")),
    ("count", re.compile(r"jobs_in_(system|queue)|queue_length|visit_ratio(_\w+)?")),
)


def suffix_of(unit: str) -> str:
    """The ending that a heading with this unit has; empty for units without one, and unknown ones.

    >>> suffix_of("requests/s")
    'rps'
    """
    found = _SUFFIXES.get(_spelled(unit), "")
    return "" if found == "1" else found


def si_scale(quantity: str, unit: str, where: str) -> float:
    """What a number of this quantity is multiplied by to be in seconds, 1/s, or a fraction; without a unit it is in them already.

    Raises
    ------
    RecordError
        If a law is about the quantity, and its unit is none that measures it.
    """
    suffix, kind = _SUFFIXES.get(_spelled(unit)), _kind_of(quantity)
    if kind is None:
        # No law is about it; percent stays what it is.
        return _SCALES[suffix] if suffix is not None and suffix != "percent" else 1.0
    suffixes, known = _OF_KIND[kind]
    if suffix is None or (suffix and suffix not in suffixes):
        raise RecordError(f"{where}: the unit {unit!r} is none of {quantity}. Write it in {known}.")
    return _SCALES[suffix]


def _kind_of(quantity: str) -> str | None:
    """What kind of unit a quantity has; None where no rule knows it."""
    if not quantity:
        return None
    ruled = next((kind for kind, pattern in _RULED if pattern.fullmatch(quantity)), None)
    if ruled is not None:
        return ruled
    for kind, unit in (("rate", "rps"), ("time", "s"), ("share", "percent")):
        named = read_name(f"{quantity}_{unit}")
        if named is not None and not named.about and KINDS.get(named.quantity) == kind:
            return kind
    return None


def _spelled(unit: str) -> str:
    return unit.strip().lower().replace("μ", "µ").replace(" ", "")
