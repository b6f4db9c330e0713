"""Queueing models, predicted against observed, with the reason of each miss.

Each model takes what it needs from some levels of clients and predicts others. M/M/1 and M/M/m take the arrival
rate of the level itself and the service rate of the lightest load. The network of queues takes its demands at the
lightest load and the links' capacity. The calibrated closed model takes all levels but the one that it predicts
(`sweeps.client_series`).

``section``     what stands on the page, in its order
``predicted``   open stations and the network of queues from the lightest load, and why they miss
``calibrated``  the model that predicted best what it had not seen
``words``       what they say alike

Start with `build`.
"""

from weir_lab.report.sections.models.section import build, summary

__all__ = ["build", "summary"]
