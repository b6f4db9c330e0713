"""Builders of sections, one kind each: a `common.Task` in, blocks out.

``clients``      throughput and response time over clients
``comparisons``  several ways to the same servers: subjects side by side, and what a proxy costs
``replication``  what copies cost, for servers and for the share of writes
``multigets``    sharded against whole over the number of keys
``effects``      2^k r designs
``models``       predicted against observed
``traces``       stability over time
``placement``    whether keys fall evenly
``smaller``      links, what placing a key costs
``claims``       the earlier study's sentences, held against our runs
"""

__all__: list[str] = []
