"""A study becomes records: `run` makes what is missing, `sets` does so for several studies, `live` shows it."""

__all__: list[str] = []
