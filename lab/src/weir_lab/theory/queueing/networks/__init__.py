"""Several stations.

``closed``, ``convolution``  product-form networks with a population
``crew``                     a closed network in which workers are held while requests are at the stations behind them
``open``                     product-form networks with an arrival rate
``bounds``                   what can be said without solving
``forkjoin``                 the slowest of several
"""

__all__: list[str] = []
