"""The network of queues as a drawing of its fitted stations, at the heavy load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.report.common import figure
from weir_lab.report.numbers.stations import CPU_QUOTAS
from weir_lab.report.page.drawings.queues import Box, diagram_of
from weir_lab.report.sections.models.networks import heavy_of
from weir_lab.theory.fitting.devices import WORKERS
from weir_lab.theory.units import significant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.common import Task
    from weir_lab.report.page.blocks import Figure
    from weir_lab.report.page.drawings.queues import Diagram
    from weir_lab.report.sections.models.layouts import LayoutFit, Predicted
    from weir_lab.theory.fitting.devices import Device, Fitted, Solved

__all__ = ["drawing", "other_drawings"]

# On the way of a request from the clients to the workers.
_ORDER = (
    "client CPUs",
    CPU_QUOTAS["client"],
    "client uplinks",
    "network thread",
    "proxy CPUs",
    CPU_QUOTAS["proxy"],
    "proxy uplinks",
    "server CPUs",
    CPU_QUOTAS["server"],
    "server uplinks",
)


_TEXT = (
    "As fitted. Box: devices × servers m of each, demand D = V S, share of time in use (also the bar); strokes: its queue. At an arrow: "
    "visits of a request to one of the devices. Frame: what a request holds its worker or reader for."
)


def drawing(task: Task, fits: Sequence[LayoutFit]) -> Figure | None:
    """The first layout with a network; ``None`` without one."""
    return figure(task, "diagram", "Network of queues", _panels(fits)[:1], _TEXT)


def other_drawings(task: Task, fits: Sequence[LayoutFit]) -> Figure | None:
    """The others, a panel for each; ``None`` without any."""
    return figure(task, "diagram-others", "Networks of queues of the other layouts", _panels(fits)[1:], _TEXT)


def _panels(fits: Sequence[LayoutFit]) -> list[Diagram]:
    panels = []
    for fit in fits:
        heavy = heavy_of(fit)
        if fit.fitted is None or heavy is None:
            continue
        settings = heavy.cell.settings
        crew = f", {settings.workers} workers per proxy" if heavy.workers and settings.workers else ""
        at = f"{settings.population} clients{crew}"
        boxes = _boxes(fit, fit.fitted, heavy)
        if any(box.share is not None for box in boxes):
            panels.append(diagram_of(f"{fit.layout.name}, {at}", boxes))
    return panels


def _boxes(fit: LayoutFit, fitted: Fitted, one: Predicted) -> tuple[Box, ...]:
    system = fitted.system(one.cell.settings.population, one.workers or None)
    devices = sorted(
        (device for device in system.devices if device.demand_s > 0.0),
        key=lambda device: _ORDER.index(device.name) if device.name in _ORDER else len(_ORDER),
    )
    boxes = [Box("clients", ("and network", "delay", _ms("", system.outside_s)))]
    boxes += [_box(device, one.solved, inside=False) for device in devices if not (device.inside and one.workers)]
    if not one.workers:
        return tuple(boxes)
    proxies = fit.layout.proxies
    busy = one.solved.utilization[WORKERS]
    held = busy * one.workers / one.solved.throughput_per_s
    texts = (_count(proxies, one.workers // proxies), _ms("held ", held), _used(busy))
    boxes.append(Box(fit.layout.crew, texts, busy, 1.0 / proxies, frame=True))
    boxes += [_box(device, one.solved, inside=True) for device in devices if device.inside]
    boxes.append(Box("network", ("and kernels", "delay", _ms("", system.inside_s)), inside=True))
    return tuple(boxes)


def _box(device: Device, solved: Solved, *, inside: bool) -> Box:
    share = solved.utilization[device.name]
    texts = (_count(device.count, device.servers), _ms("D ", device.demand_s), _used(share))
    return Box(device.name, texts, share, device.visit_ratio, inside=inside)


def _count(devices: int, servers: int) -> str:
    return f"{devices} × m = {servers}"


def _ms(name: str, seconds: float) -> str:
    # A delay that the fit has made next to nothing: its digits would say more than is known.
    return f"{name}{significant(1e3 * seconds) if seconds >= 1e-6 else '0'} ms"


def _used(share: float) -> str:
    return f"{significant(100.0 * share)} % used"
