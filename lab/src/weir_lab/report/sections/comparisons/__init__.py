"""Ways to the same servers held against each other: `beside` several proxies and none, `overhead` a whole study's proxy and none."""

__all__: list[str] = []
