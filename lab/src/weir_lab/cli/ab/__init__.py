"""``weir-lab ab``: `command`; `options` reads its words."""

from weir_lab.cli.ab.command import ab

__all__ = ["ab"]
