"""What stands in a study file.

``expressions``  in levels and exclusions
``goals``        of a search
``lines``        where keys stand
``mistakes``     in plain words
"""

__all__: list[str] = []
