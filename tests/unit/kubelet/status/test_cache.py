"""The status cache: versions, and which statuses are still unsent."""

from pykubelet.api.generated.core import PodStatus
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.status.cache import StatusCache
from pykubelet.testing.build import pod

UID = PodUid("uid-default-web")


def filled(*messages: str) -> StatusCache:
    cache = StatusCache()
    for at, message in enumerate(messages):
        cache.put(pod(), PodStatus(message=message), finished=False, at=float(at))
    return cache


def test_status_is_unsent_until_its_own_version_was_sent() -> None:
    """An older version that was sent does not mark the newer one as sent."""
    cache = filled("one", "two")
    cache.mark_sent(UID, 1)
    assert UID in cache.unsent
    cache.mark_sent(UID, 2)
    assert UID not in cache.unsent
    cache.mark_unsent(UID)
    assert UID in cache.unsent


def test_wait_counts_from_the_oldest_change_that_was_not_sent() -> None:
    """Changes that were sent do not count."""
    cache = filled("one", "two")
    entry = cache.get(UID)
    assert entry is not None
    assert entry.unsent_since == 0.0
    cache.mark_sent(UID, 2)
    assert cache.put(pod(), PodStatus(message="three"), finished=False, at=7.0).unsent_since == 7.0


def test_unknown_pods_and_old_versions_are_left_alone_when_marked() -> None:
    """Responses may be late: for a dropped pod, or for a version that was superseded."""
    cache = filled("one", "two")
    cache.restamp(UID, 1, PodStatus(message="late"))
    entry = cache.get(UID)
    assert entry is not None
    assert (entry.version, entry.status.message) == (2, "two")
    assert (cache.drop(UID), cache.drop(UID)) == (True, False)
    cache.mark_unsent(UID)
    cache.mark_sent(UID, 2)
    cache.restamp(UID, 2, PodStatus())
    assert (cache.unsent, cache.get(UID), list(cache)) == ((), None, [])
