"""The command line ``weir-lab``: `commands` puts them together, the other modules have some each.

``commands``       run, extend, report, version; errors become messages
``studies``        check, plan, gather, tables, import
``whole_studies``  study, verify, compare
``checks``         selfcheck, audit, merge
``predictions``    predict, capacity; ``tier_text`` reads their tiers
``placements``     hash
``hold_outs``      hold-out
``testbeds``       testbeds, reserve, links, clean
"""

from weir_lab.cli.commands import app, main

__all__ = ["app", "main"]
