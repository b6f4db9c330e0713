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
record formats (docs/formats.md). Read `design.Study` first.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
