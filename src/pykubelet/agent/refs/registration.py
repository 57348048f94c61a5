"""Which registered pod refers to which objects; only differences reach the store.

Pods in, `add_reference` and `delete_reference` out. Upstream: cacheBasedManager in
pkg/kubelet/util/manager/cache_based_manager.go.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from pykubelet.agent.refs.store import ObjectKey
from pykubelet.api.generated.core import Pod


class ReferenceCounter(Protocol):
    """The part of a store that registration needs."""

    def add_reference(self, key: ObjectKey, referrer: str) -> None:
        """A pod refers to an object."""

    def delete_reference(self, key: ObjectKey, referrer: str) -> None:
        """It does so no more."""


class _PodKey(NamedTuple):
    """With the UID, so that a recreated pod of the same name does not cancel its predecessor."""

    namespace: str
    name: str
    uid: str


class Registration:
    """The registered pods and the names they refer to."""

    def __init__(self, *, names: Callable[[Pod], frozenset[str]], counter: ReferenceCounter) -> None:
        self._names, self._counter = names, counter
        self._registered: dict[_PodKey, frozenset[str]] = {}

    def register_pod(self, pod: Pod) -> None:
        """Take the references of a pod, new or changed. Unchanged ones are left alone."""
        key = _key(pod)
        before, now = self._registered.get(key, frozenset()), self._names(pod)
        self._registered[key] = now
        # Add before delete: an object that only moved to another field is never without a reference.
        for name in sorted(now - before):
            self._counter.add_reference(ObjectKey(key.namespace, name), key.uid)
        self._release(key, before - now)

    def unregister_pod(self, pod: Pod) -> None:
        """Drop the references the pod was registered with, whatever its spec says now."""
        key = _key(pod)
        self._release(key, self._registered.pop(key, frozenset()))

    def _release(self, key: _PodKey, names: frozenset[str]) -> None:
        for name in sorted(names):
            self._counter.delete_reference(ObjectKey(key.namespace, name), key.uid)


def _key(pod: Pod) -> _PodKey:
    return _PodKey(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)
