"""What can be computed without a machine: statistics, queues, laws, designs. Pure, and of use without the rest.

Arrays and numbers in, frozen results out: no study, no record, no process, no page; randomness is an argument. Nothing here imports another
package of the laboratory but `weir_lab.errors`.

``linear``      is B different from A? one model of all runs: cell + block + covariate; changes, levels, their checks
``stats``       intervals on run means, stop rule, warm-up, percentiles, placement
``queueing``    stations, open and closed networks, bounds, scalability law, fork-join
``laws``        checks that hold for every correct measurement, with verdict and reason
``factorial``   2^k r designs: effects, intervals, residual checks, additive against logarithmic
``fitting``     parameters of models from measurements; predictions of what was held out; where throughput stops growing
``capacity``    what if: response times and sizes of systems that are not built yet, and their simulation
``placements``  how evenly keys fall on servers, and requests on keys
``histogram``   HdrHistograms as counts in numpy arrays
``units``       numbers as text: three significant digits, a space, the unit

Start with `linear` and `queueing`.
"""

__all__: list[str] = []
