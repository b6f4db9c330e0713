"""Of the machine that the lab runs on: `facts` about it and the programs on it, and its `processes`."""

__all__: list[str] = []
