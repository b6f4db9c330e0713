"""From measurements to models, and back to what they say of measurements that they were not fitted to.

``calibration``    parameters of models, with intervals, and how well each predicts
``knee``           where throughput stops growing, by several labelled rules
``holdout``        a closed network is fitted to some numbers of clients and has to predict the others
``holdout_forms``  the kinds of networks that this tries
``devices``        a system of counted devices with a crew, fitted to some cells; what twice of a device would do
``simulated``      the same event by event
``meeting``        whether a prediction is met, by the interval of what was measured
"""

__all__: list[str] = []
