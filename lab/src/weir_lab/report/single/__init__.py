"""The report of one sweep: `report` writes it, with figures of `plots` and `plots_sweeps`, drawn by `drawing`."""

__all__: list[str] = []
