"""Deletes what nobody owns any more, and lets go of what its owner leaves behind."""

from pykubelet.controllers.garbage.collector import GarbageCollector

__all__ = ["GarbageCollector"]
