"""Commands that ask models and placements, without runs or of runs that are there.

``predictions``  predict, capacity; ``tier_text`` reads their tiers
``placements``   hash
``hold_outs``    hold-out
"""

__all__: list[str] = []
