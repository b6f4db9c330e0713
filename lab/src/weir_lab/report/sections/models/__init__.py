"""Queueing models, predicted against measured, with the reason of each miss.

Networks of queues are fitted to half of a layout's cells by rule and predict the other half. M/M/1 and M/M/m take the
arrival rate of the level itself, and their service rate from the largest throughput or from the fewest clients. The
calibrated closed model takes all levels but the one that it predicts (`sweeps.client_series`).

``section``        what stands on the page, in its order
``open_stations``  M/M/1 and M/M/m with all that they say, at light and heavy load
``counted``        what a request takes of each device of a cell
``layouts``        networks of those devices, fitted and held against what they did not see
``networks``       their tables, figures and sentences
``drawn``          their drawing
``twice``          what they say of twice the fullest station; `twice.twice_at` for other sections
``calibrated``     the closed model that predicted best what it had not seen
``printed``        what the studies printed of their models, and what is right
``words``          what they say alike

Start with `build`.
"""

from weir_lab.report.sections.models.section import build, summary

__all__ = ["build", "summary"]
