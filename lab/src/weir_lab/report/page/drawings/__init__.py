"""Panels that are pictures: ``queues`` draws a network of queues, ``machines`` a system under load."""

__all__: list[str] = []
