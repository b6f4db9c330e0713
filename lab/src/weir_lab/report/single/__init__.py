"""The report of one sweep.

``report``      its files: the page, and the twin with every number. Start here
``assembling``  which sections it has: those of whole studies, where the sweep has what they look at, and those below
``levels``      all cells, and throughput and response time over any factor
``overhead``    what the proxy costs
``roles``       stages inside the proxy, and CPU time by role
``listing``     design, spread, machines, runs
"""

__all__: list[str] = []
