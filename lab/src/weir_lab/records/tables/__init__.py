"""The tables of a sweep as CSV: `summary`, and `unloaded_tables` for studies without load."""

__all__: list[str] = []
