"""weir-lab: designed experiments on memcached proxies.

The modules import one way only (tests/test_arrows.py): ``errors`` and ``histogram`` first, then

``design``      a study file -> cells and their order
``formats``     what weir load and weir proxy write; exact differences of snapshots
``records``     what a run leaves on disk, and reading it
``stats``       intervals on run means, comparisons, stop rule, warm-up, percentiles, placement
``laws``        checks that hold for every correct measurement, with verdict and reason
``queueing``    stations, open and closed networks, bounds, scalability law, fork-join
``factorial``   2^k r designs: effects, intervals, residual checks, additive against logarithmic
``knee``        where throughput stops growing, by several labelled rules
``calibration`` parameters of models from measurements; predictions of what was held out
``capacity``    what if: response times and sizes of systems that are not built yet
``audit``       which printed numbers break which law
``oracles``     numbers whose right value is known, and the check against them
``verdict``     gates: is a run valid?
``analysis``    records of a study -> every number of its report
``plots``       numbers -> figures (SVG)
``report``      numbers and figures -> one HTML file and its JSON twin; ``essence`` -> the terminal
``network``     machines out of one: namespaces, links, CPU quotas; what a killed lab left is known and removed
``testbeds``    where roles run: ``local``, ``netns``, ``hosts``; ``topology`` is what a study says of it, ``places`` what is recorded
``testbed``     one run of one cell on a testbed's machines; ``links`` loads their links up to their bounds
``run``         a study -> records
``commands``    commands that need no runs, ``testbed_commands`` those about testbeds; ``cli`` is the command line

Leaves out: the proxy and the load generator, which are Rust; they meet the lab at the command line, the admin port and the
record formats (docs/formats.md). Read `design.Study` first.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
