"""The report of one sweep.

``report``      its files: the page, and the twin with every number. Start here
``assembling``  which sections it has: those of whole studies, where the sweep has what they look at, and those below
``levels``      all cells, and throughput and response time over any factor
``open_loops``  of offered rates: what is kept up with, what limits, what a response takes
``open_answers``  the same in three sentences
``offered``     the numbers behind these: a curve per level of the other factors
``capacities``  of a search: the capacity of each cell, what limits it, how it was found
``overhead``    what the proxy costs
``roles``       stages inside the proxy, and CPU time by role
``listing``     design, spread, machines, runs
"""

__all__: list[str] = []
