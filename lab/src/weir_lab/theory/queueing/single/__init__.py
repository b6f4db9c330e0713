"""One station.

``stations``             with an unlimited queue: M/M/1, M/M/m
``finite``               with finitely many jobs
``general``, ``shapes``  with any service time; ``inversion`` gives their percentiles
``bucket``               behind a token bucket
"""

__all__: list[str] = []
