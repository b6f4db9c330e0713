"""Whole studies as data.

``sets``      which sections a report has, and which study files they need
``variants``  the sibling of a design with another engine
"""

__all__: list[str] = []
