"""Pods by their managing owner, kept up to date one change at a time.

Upstream: PodControllerIndex and FilterPodsByOwner in pkg/controller/controller_utils.go.
"""

from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import pod_label
from pykubelet.api.typed import ApiObject
from pykubelet.controllers.object_index import manager_of

_Key = tuple[str, ...]


def _key_of(pod: Pod) -> _Key:
    """Namespace, kind, name and UID of the managing owner, or the namespace alone for an orphan."""
    owner = manager_of(pod)
    namespace = pod.metadata.namespace
    return (namespace,) if owner is None else (namespace, owner.kind, owner.name, owner.uid)


class PodIndex:
    """The pods a controller has seen, by name and by owner. Every change costs O(1)."""

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}
        self._by_key: dict[_Key, dict[str, Pod]] = {}

    def put(self, pod: Pod) -> Pod | None:
        """Add a pod or replace it; the pod that was there."""
        old = self.remove(pod)
        label = pod_label(pod)
        self._pods[label] = pod
        self._by_key.setdefault(_key_of(pod), {})[label] = pod
        return old

    def remove(self, pod: Pod) -> Pod | None:
        """Forget the pod of this name; the pod that was there."""
        label = pod_label(pod)
        old = self._pods.pop(label, None)
        if old is not None:
            key = _key_of(old)
            members = self._by_key[key]
            del members[label]
            if not members:
                del self._by_key[key]
        return old

    def get(self, label: str) -> Pod | None:
        """The pod called `namespace/name`."""
        return self._pods.get(label)

    def of_owner(self, owner: ApiObject, *, with_orphans: bool = False) -> tuple[Pod, ...]:
        """The pods `owner` manages and, if asked for, those of its namespace that nobody does."""
        keys = [_key_of_owner(owner), (owner.metadata.namespace,)]
        return tuple(pod for key in keys[: 1 + with_orphans] for pod in self._by_key.get(key, {}).values())

    def count_of_owner(self, owner: ApiObject) -> int:
        """How many pods `owner` manages."""
        return len(self._by_key.get(_key_of_owner(owner), ()))

    def __len__(self) -> int:
        return len(self._pods)


def _key_of_owner(owner: ApiObject) -> _Key:
    meta = owner.metadata
    for word, value in (
        ("namespace", meta.namespace),
        ("name", meta.name),
        ("uid", meta.uid),
        ("kind", owner.kind),
    ):
        if not value:
            raise ValueError(f"no owner {word} provided")
    return (meta.namespace, owner.kind, meta.name, meta.uid)
