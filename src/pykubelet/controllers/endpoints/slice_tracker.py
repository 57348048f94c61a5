"""Which slices a service should have by what was written: whether the known ones are older.

Pure. Acting on slices from before one's own last write would make some twice. Upstream:
k8s.io/endpointslice/util/endpointslice_tracker.go.
"""

from collections.abc import Iterable

from pykubelet.api.generated.discovery import EndpointSlice

_DELETED = -1


class SliceTracker:
    """The generation of each slice that was written, by service and UID."""

    def __init__(self) -> None:
        self._generations: dict[str, dict[str, int]] = {}

    def written(self, service_key: str, written: EndpointSlice) -> None:
        """A slice was made or changed by us."""
        self._generations.setdefault(service_key, {})[written.metadata.uid] = written.metadata.generation

    def deletion_sent(self, service_key: str, deleted: EndpointSlice) -> None:
        """A slice was deleted by us."""
        self._generations.setdefault(service_key, {})[deleted.metadata.uid] = _DELETED

    def is_news(self, service_key: str, seen: EndpointSlice) -> bool:
        """Whether a slice that was seen is not, or no longer, as we wrote it."""
        known = self._generations.get(service_key, {}).get(seen.metadata.uid)
        return known is None or seen.metadata.generation > known

    def saw_deletion(self, service_key: str, gone: EndpointSlice) -> bool:
        """A slice is gone; whether we had a part in it, or never cared."""
        known = self._generations.get(service_key, {}).pop(gone.metadata.uid, _DELETED)
        return known == _DELETED

    def is_stale(self, service_key: str, slices: Iterable[EndpointSlice]) -> bool:
        """Whether these slices of a service are older than what was written."""
        known = self._generations.get(service_key, {})
        seen = {one.metadata.uid: one.metadata.generation for one in slices}
        return any(
            (uid in seen) if generation == _DELETED else generation > seen.get(uid, _DELETED)
            for uid, generation in known.items()
        )

    def forget(self, service_key: str) -> None:
        """The service is gone."""
        self._generations.pop(service_key, None)
