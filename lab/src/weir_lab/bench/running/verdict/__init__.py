"""Whether a run counts.

``gates``   wrong answers, lost requests, missing records, busy machines
``obeyed``  whether programs had in force what the cell sets
"""

from weir_lab.bench.running.verdict.gates import judge

__all__ = ["judge"]
