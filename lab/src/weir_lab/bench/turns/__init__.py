"""Two systems in turn inside of one process life: what `weir-lab ab` measures. docs/measure/ab.md tells why so.

``sides``      what A and B mean
``lives``      one life: both sides alive before the same servers, short pieces of load in turn
``comparing``  lives until a verdict, or until the budget is used up (`records.comparisons.looking`). Start here
"""

__all__: list[str] = []
