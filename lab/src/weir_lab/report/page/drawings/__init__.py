"""Panels that are pictures: ``queues`` draws a network of queues, ``machines`` a system under load. ``standalone``: figures as files."""

__all__: list[str] = []
