"""The tables of a sweep.

``summary``          CSV files of a sweep
``run_rows``         a row per run, with its factors and all responses
``found``            capacities that a study with ``find`` has found
``attempts``         a list of all attempts of some sweeps, short
``frames``           the same for pandas and Parquet
``unloaded_tables``  for studies without load
"""

__all__: list[str] = []
