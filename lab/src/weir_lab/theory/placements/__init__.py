"""Where keys fall, and how often each is asked for.

``hashing``     verdicts on how evenly placements spread keys
``popularity``  shares of the requests per key, and of the hottest one
"""

__all__: list[str] = []
