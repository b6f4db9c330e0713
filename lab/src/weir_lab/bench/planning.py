"""What a study will do, before anything runs: cells, runs, time, order, and doubts. Start with `plan_lines`.

Pure: what is already there, and what the binary can do, are arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.bench.programs.filling import unknown_names
from weir_lab.bench.programs.generators import generator_doubts, target_refusals
from weir_lab.bench.programs.subjects import NUTCRACKER, WEIR, refusals
from weir_lab.bench.testbeds import TestbedKind
from weir_lab.design import SEARCH_RUNS_MIN, Kind, Settings, block, cells_of
from weir_lab.design.topology import Shape, tier_of
from weir_lab.theory.units import count_text, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.bench.programs.subjects import Abilities
    from weir_lab.design import Cell, Expected, Level, Plan, Study

__all__ = [
    "Estimate",
    "chosen_testbed",
    "doubts",
    "duration_text",
    "estimate",
    "expected_seconds",
    "machines_of",
    "missing_here",
    "plan_lines",
    "room_for_all_keys",
    "shape_of",
    "subject_doubts",
]

# Starting, watching and stopping memcached, proxy and generator, and judging the run, as seen on two cores.
_AROUND_S = 0.3
# The same of proxies, and of each server beyond the first.
_PROXY_S = 0.3
_SERVER_S = 0.03
# Making the testbed and measuring its links, before the first run.
_OPENING_S = 5.0
# Filling: a request's own time, and that of its bytes, where a server has a sixth of a CPU.
_PREFILL_KEYS_PER_S = 30_000
_PREFILL_BYTES_PER_S = 60e6
_HASHED_KEYS_PER_S = 500_000
_HASH_S = 0.2
# What it takes more to let several generators begin together.
_TOGETHER_S = 0.5
# Memory that memcached spends on an item beside key and value, and the share of its limit that slabs of one size can use.
_ITEM_BYTES = 60
_USABLE_MEMORY = 0.8
_MSER_WINDOWS_MIN = 50


@dataclass(frozen=True)
class Estimate:
    """How many runs a study takes at least and at most, and how long."""

    cells: int
    runs_min: int
    runs_max: int
    run_s: float
    opening_s: float = 0.0

    @property
    def seconds_min(self) -> float:
        """If every cell converges at once and every run is valid."""
        return self.opening_s + self.runs_min * self.run_s

    @property
    def seconds_max(self) -> float:
        """If no cell converges; retries of invalid runs are not in it."""
        return self.opening_s + self.runs_max * self.run_s


def estimate(study: Study) -> Estimate:
    """Count runs and time; refined cells are counted as if every stage added all its offsets."""
    cells = len(cells_of(study)) + sum(len(stage.offsets) for stage in study.refine)
    if study.find is not None:
        least, most = SEARCH_RUNS_MIN, study.search.runs_max
        return Estimate(cells, cells * least, cells * most, expected_seconds(study), _OPENING_S)
    least = study.plan.repetitions + study.extended
    most = study.plan.repetitions_max + study.extended
    opening = 0.0 if study.kind is Kind.HASH else _OPENING_S
    return Estimate(cells, cells * least, cells * most, expected_seconds(study), opening)


def expected_seconds(study: Study) -> float:
    """Rough time of one run: its phases, and what it takes to start, fill and stop."""
    if study.kind is Kind.HASH:
        return _HASH_S + max(cell.settings.keys for cell in cells_of(study)) / _HASHED_KEYS_PER_S
    if study.kind is Kind.LINKS:
        # Rates over every ordered pair of the three tiers, and TCP's slow start before each.
        return 6 * 1.5 * study.plan.measured_s + _AROUND_S
    cells = [cell.settings for cell in cells_of(study)]
    plan = study.plan
    return plan.warmup_s + plan.measured_s + _AROUND_S + sum(_beside_s(one, plan) for one in cells) / len(cells)


def _beside_s(settings: Settings, plan: Plan) -> float:
    """What a cell takes beyond its phases: filling, letting several generators begin together, cooling down."""
    together = _TOGETHER_S if settings.generators > 1 else 0.0
    cooldown = plan.cooldown_s if settings.generator != "weir" else 0.0
    proxies = _PROXY_S if settings.path.value == "proxy" else 0.0
    return _filling_s(settings) + together + cooldown + proxies + _SERVER_S * (settings.servers - 1)


def _filling_s(settings: Settings) -> float:
    """Every server gets all keys at the same time; through a proxy that is not known here, as many as there are replicas."""
    if settings.path.value == "direct" or (settings.subject in (WEIR, NUTCRACKER) and room_for_all_keys(settings)):
        return settings.keys / _PREFILL_KEYS_PER_S + settings.keys * _size(settings) / _PREFILL_BYTES_PER_S
    stored = settings.keys * settings.replicas * _size(settings)
    return settings.keys / _PREFILL_KEYS_PER_S + stored / _PREFILL_BYTES_PER_S


def room_for_all_keys(settings: Settings) -> bool:
    """Whether each server can hold every key of a cell."""
    stored = settings.keys * (_size(settings) + _ITEM_BYTES)
    return stored <= settings.server_memory_mib * (1 << 20) * _USABLE_MEMORY


def _size(settings: Settings) -> int:
    return settings.value_size_bytes + (settings.key_size_bytes or 0)


def machines_of(study: Study) -> Shape:
    """Machines that the largest of a study's cells needs; where targets run already, those of the load generators alone."""
    shape = shape_of(cells_of(study))
    return Shape(shape.clients, 0, 0) if study.targets else shape


def shape_of(cells: Sequence[Cell]) -> Shape:
    """Machines that the largest of the cells needs."""
    shape = Shape(1, 0, 1)
    for cell in cells:
        settings = cell.settings
        proxies = settings.proxies if settings.path.value == "proxy" else 0
        shape = shape.or_larger(Shape(settings.client_machines, proxies, settings.servers))
    return shape


def chosen_testbed(study: Study, wanted: TestbedKind | None = None) -> TestbedKind:
    """Where the study runs: as asked for, or as it says itself. Keys are counted here, whatever it says."""
    if study.kind is Kind.HASH:
        return TestbedKind.LOCAL
    return wanted or TestbedKind(study.testbed)


def missing_here(study: Study, abilities: Abilities | None, kind: TestbedKind) -> list[str]:
    """Why a study cannot run with this binary, the programs of this machine and on this testbed; ``None`` leaves the binary out."""
    if study.kind is Kind.HASH:
        return []
    if study.kind is Kind.LINKS:
        local = "the testbed local has no links to be measured: use netns or hosts (--testbed)"
        return [local] if kind is TestbedKind.LOCAL else []
    cells = [cell.settings for cell in cells_of(study)]
    if study.targets:
        return _unreachable(kind) + [text for one in cells for text in target_refusals(one)]
    return refusals(study, cells, abilities)


def _unreachable(kind: TestbedKind) -> list[str]:
    if kind is not TestbedKind.NETNS:
        return []
    return [
        f"the machines of the testbed {kind} reach nothing outside of it: use the testbed local to ask targets from this machine, or hosts "
        "to ask them from others"
    ]


def doubts(study: Study) -> list[str]:
    """What the author may not have meant, though it can be run."""
    found: dict[str, None] = {}
    plan = study.plan
    if study.kind.runs_load:
        if plan.cut == "mser-5" and plan.measured_s < _MSER_WINDOWS_MIN:
            text = f"needs {_MSER_WINDOWS_MIN} windows of 1 s, and a run has {plan.measured_s:g}: the fixed cut is used"
            found[f'plan.cut: "mser-5" {text}'] = None
        if plan.warmup_s == 0:
            found["plan.warmup_s is 0: cold caches and connections are measured, too"] = None
        if (
            study.find is None
            and study.pace is None
            and plan.stop is None
            and plan.repetitions < 5
            and study.kind is Kind.LOAD
        ):
            found[
                f"plan.repetitions: intervals from {plan.repetitions} runs are wide; a [plan.stop] or 5 runs make them useful"
            ] = None
        for cell in cells_of(study):
            found.update(dict.fromkeys(_memory_doubts(cell.settings) if not study.targets else []))
            found.update(dict.fromkeys(generator_doubts(cell.settings)))
    found.update(dict.fromkeys(subject_doubts(study)))
    if plan.budget_s is not None and estimate(study).seconds_min > plan.budget_s:
        needed = duration_text(estimate(study).seconds_min)
        found[
            f"plan.budget_s: {duration_text(plan.budget_s)} end before the {needed} that the study takes at least"
        ] = None
    return list(found)


def subject_doubts(study: Study) -> list[str]:
    """What in the braces of a subject is not filled in."""
    found = []
    for name, subject in study.subjects.items():
        for slip, near in unknown_names(subject).items():
            meant = f": did you mean {near}?" if near else "; docs/measure/own-system.md lists what is filled in"
            found.append(f"subjects.{name}: {slip} is left as it is{meant}")
    return found


def plan_lines(
    study: Study,
    missing: Sequence[str],
    reused: int | None = None,
    shown: int | None = None,
    testbed: TestbedKind | None = None,
) -> list[str]:
    """The plan as text: what is varied, every cell, how often, how long, and the order of the first block."""
    where = chosen_testbed(study, testbed)
    cells = cells_of(study)
    expected = estimate(study)
    lines = [
        f"{study.name}: {study.title}",
        f"  question    {study.question}",
        f"  hypothesis  {study.hypothesis}",
        f"  kind {study.kind}, pace {study.pace or 'as written'}, testbed {where}, {_what_runs(study, cells)}",
        "",
        *_factor_lines(study),
        *_fixed_lines(study, cells),
        *_link_lines(study, where, shape_of(cells)),
        *_refinement_lines(study),
        "",
        *_effort_lines(study, expected, reused),
        "",
        f"cells ({len(cells)}):",
        *_cell_lines(study, cells, shown),
        *_order_lines(study, cells, shown),
    ]
    lines += [f"doubt: {doubt}" for doubt in doubts(study)]
    lines += [f"cannot run here: {reason}" for reason in missing]
    return lines


def duration_text(seconds: float) -> str:
    """``45 s``, ``12 min``, ``3 h 20 min``.

    >>> duration_text(45), duration_text(780), duration_text(12_000)
    ('45 s', '13 min', '3 h 20 min')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def _what_runs(study: Study, cells: Sequence[Cell]) -> str:
    return f"targets that run already: {', '.join(study.targets)}" if study.targets else str(shape_of(cells))


def _factor_lines(study: Study) -> list[str]:
    lines = []
    for name, levels in study.factors.items():
        marked = " (assumed)" if name in study.assumed else ""
        lines.append(f"  factor  {name:18} {', '.join(map(str, levels))}{marked}")
    lines += [f"  without {text}" for text in study.exclude]
    return lines


def _fixed_lines(study: Study, cells: Sequence[Cell]) -> list[str]:
    """Settings that no factor varies; of those that depend on factors, what they come to."""
    lines = []
    for name, value in study.fixed.items():
        marked = " (assumed)" if name in study.assumed else ""
        lines.append(f"  fixed   {name:18} {value}{_outcomes(name, value, cells)}{marked}")
    if cells and study.kind.runs_load:
        defaults = sorted(set(Settings.model_fields) - study.fixed.keys() - study.factors.keys())
        known = [name for name in defaults if Settings.model_fields[name].default is not None]
        lines.append("  default " + ", ".join(f"{name} {Settings.model_fields[name].default}" for name in known))
    return lines


def _outcomes(name: str, value: Level, cells: Sequence[Cell]) -> str:
    if not str(value).startswith("="):
        return ""
    values = sorted({getattr(cell.settings, name) for cell in cells})
    listed = ", ".join(map(str, values[:8])) + (", ..." if len(values) > 8 else "")
    return f"  -> {listed}"


def _link_lines(study: Study, where: TestbedKind, shape: Shape) -> list[str]:
    if study.targets or (not study.kind.runs_load and study.kind is not Kind.LINKS):
        return []
    topology = study.topology
    if where is TestbedKind.LOCAL:
        links = "the loopback interface; the testbed local builds none"
    elif where is TestbedKind.HOSTS:
        links = "those of the hosts"
    else:
        marked = " (assumed)" if "topology.links" in study.assumed else ""
        firsts = [name for name in shape.machines if name.endswith("-0")]
        rates = ", ".join(f"{tier_of(name)} {topology.mbit_s(name):g}" for name in firsts)
        delays = ", ".join(f"{topology.delay_ms(name):g}" for name in firsts)
        links = f"each machine sends at most: {rates} Mbit/s; what it receives is delayed by {delays} ms{marked}"
    # On hosts nothing is pinned.
    pinned = [
        f"{name} {', '.join(map(str, topology.cores_of(name)))}"
        for name in shape.machines
        if topology.cores_of(name) and where is not TestbedKind.HOSTS
    ]
    if topology.cores.network and where is TestbedKind.NETNS:
        pinned.append(f"delay device {', '.join(map(str, topology.cores.network))}")
    return [f"  links   {links}", *([f"  cores   {'; '.join(pinned)}"] if pinned else [])]


def _refinement_lines(study: Study) -> list[str]:
    return [
        f"  afterwards  {stage.factor} around the cell with the best {stage.response}: {_signed(stage.offsets)}"
        for stage in study.refine
    ]


def _effort_lines(study: Study, expected: Estimate, reused: int | None) -> list[str]:
    plan = study.plan
    if study.find is not None:
        asked = study.search
        times = (
            f"{SEARCH_RUNS_MIN} to {asked.runs_max} runs between {asked.rate_min:g} and {asked.rate_max:g} requests/s, until the "
            f"{100 * asked.level:g} % interval of the capacity ({study.find}) is within {100 * asked.half_width:g} %"
        )
    elif plan.stop is None:
        times = count_text(expected.runs_min // expected.cells, "repetition")
    else:
        responses = " and ".join(plan.stop.responses)
        times = (
            f"{plan.repetitions} to {plan.repetitions_max} repetitions, until the {100 * plan.stop.level:g} % interval of {responses} "
            f"is within {100 * plan.stop.relative_half_width:g} % of the mean"
        )
    phases = f"{plan.warmup_s:g} s warm-up, {plan.measured_s:g} s measured, {plan.cooldown_s:g} s cool-down, windows of {plan.window_s} s"
    runs, time = number(expected.runs_min, 0), duration_text(expected.seconds_min)
    if expected.runs_max > expected.runs_min:
        runs += f" to {number(expected.runs_max, 0)}"
        time += f" to {duration_text(expected.seconds_max)}"
    lines = [f"each cell: {times}", f"each run: {phases}, cut {plan.cut}, up to {count_text(plan.attempts, 'attempt')}"]
    budget = f"; the budget is {duration_text(plan.budget_s)}" if plan.budget_s is not None else ""
    lines.append(f"in all: {runs} runs, {time}{budget}")
    if reused is not None:
        lines.append(f"already there: {count_text(reused, 'run')}")
    return lines


def _cell_lines(study: Study, cells: Sequence[Cell], shown: int | None) -> list[str]:
    lines = []
    for place, cell in enumerate(cells[:shown], start=1):
        expected = [f"{point.origin}: {_expected_text(point)}" for point in study.expected if cell.has(point.at)]
        note = f"   expected by {'; '.join(expected)}" if expected else ""
        lines.append(f"  {place:>4}  {cell.name}{note}")
    if shown is not None and len(cells) > shown:
        lines.append(f"        ... and {len(cells) - shown} more (--all shows them)")
    return lines


def _expected_text(point: Expected) -> str:
    parts = []
    for field, unit in (
        ("throughput_rps", "requests/s"),
        ("mean_response_time_us", "µs mean"),
        ("p99_response_time_us", "µs p99"),
    ):
        value = getattr(point, field)
        if value is not None:
            parts.append(f"{number(value, 0)} {unit}")
    return ", ".join(parts)


def _order_lines(study: Study, cells: list[Cell], shown: int | None) -> list[str]:
    numbers = {cell.name: place for place, cell in enumerate(cells, start=1)}
    order = [str(numbers[run.cell.name]) for run in block(study, cells, 1)]
    listed = " ".join(order[:shown]) + (" ..." if shown is not None and len(order) > shown else "")
    return [f"order of block 1 (seed {study.plan.seed}, each block has its own): {listed}"]


def _memory_doubts(settings: Settings) -> list[str]:
    copies = settings.servers if settings.path.value == "direct" else settings.replicas
    stored = settings.keys * copies * (settings.value_size_bytes + settings.key_size_bytes + _ITEM_BYTES)
    room = settings.servers * settings.server_memory_mib * (1 << 20) * _USABLE_MEMORY
    if stored <= room:
        return []
    return [
        f"{settings.keys:,} keys of {settings.value_size_bytes} bytes on {copies} of {settings.servers} servers with "
        f"{settings.server_memory_mib} MiB each: memcached will evict, and runs with misses are invalid"
    ]


def _signed(offsets: Sequence[float]) -> str:
    return ", ".join(f"{offset:+g}" for offset in offsets)
