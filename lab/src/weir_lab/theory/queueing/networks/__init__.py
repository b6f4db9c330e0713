"""Several stations.

``closed``, ``convolution``  product-form networks with a population
``open``                     product-form networks with an arrival rate
``bounds``                   what can be said without solving
``forkjoin``                 the slowest of several
"""

__all__: list[str] = []
