"""What stands in a study file: `expressions` in levels and exclusions, and the `lines` where keys stand."""

__all__: list[str] = []
