"""Why a model has no answer."""

__all__ = ["UnstableError"]


class UnstableError(ValueError):
    """More work arrives than the station can do: the queue grows without end, and no steady state exists."""
