"""The command line ``weir-lab``: `commands` says which module has which command.

``sweeps``         run, extend, report
``cells``          changes, precision
``studies``        new, check, plan, gather, tables, import
``whole_studies``  study, verify, compare
``checks``         selfcheck, audit, merge
``models``         predict, capacity, hash, hold-out
``ab``             ab
``testbeds``       testbeds, reserve, links, clean
``speeds``         speed
"""

from weir_lab.cli.commands import app, main

__all__ = ["app", "main"]
