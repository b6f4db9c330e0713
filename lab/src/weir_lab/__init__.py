"""weir-lab: designed experiments on memcached proxies.

Five packages and the command line; imports go one way (tests/test_arrows.py), from the last to the first:

``errors``   what can go wrong, by who can mend it
``theory``   statistics, queues, laws, designs: pure, and of use without the rest
``design``   a study file -> cells and their order
``records``  what runs leave on disk, and how it is read
``bench``    machines and processes: makes the runs of a study
``report``   records -> numbers, sentences, tables, figures, pages
``cli``      the command line

Each names its modules at its head.

Leaves out: the proxy and the load generator, which are Rust; they meet the lab at the command line, the admin port and the
record formats (docs/reference/formats.md). Read `design.Study` first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

__all__ = ["__version__", "load_sweep"]

__version__ = "0.2.0"


def load_sweep(sweep: Path | str) -> pd.DataFrame:
    """Every run of a sweep as a row of a pandas DataFrame: factors, responses, CPU time (`records.tables.frames`)."""
    from weir_lab.records.tables.frames import (
        load_sweep as load,  # nobody who imports weir_lab waits for what only this needs
    )

    return load(sweep)
