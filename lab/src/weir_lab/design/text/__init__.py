"""What stands in a study file: `expressions` in levels and exclusions, the `lines` where keys stand, and `mistakes` in plain words."""

__all__: list[str] = []
