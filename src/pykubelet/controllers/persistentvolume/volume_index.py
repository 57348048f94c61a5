"""Indexes of volumes, claims and pods by what binds them to each other.

That is the class, the claim a volume refers to, and the volume a claim names. Each change costs O(1).

Upstream: pkg/controller/volume/persistentvolume/index.go, pkg/controller/volume/pvcprotection/pvc_protection_controller.go
"""

from collections.abc import Iterable

from pykubelet.api.generated.core import PersistentVolume, PersistentVolumeClaim, Pod
from pykubelet.api.pods import pod_label
from pykubelet.api.scheme import PODS
from pykubelet.api.volumes import claim_class, is_claim_bound, pod_claims, volume_class
from pykubelet.client.indexer import key_of
from pykubelet.client.informers import Informers

_ENDED = frozenset({"Bound", "Released", "Failed"})


class KeyGroups:
    """Keys in groups; a key may be in several groups."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, None]] = {}
        self._groups_of: dict[str, tuple[str, ...]] = {}

    def put(self, key: str, groups: Iterable[str]) -> None:
        """Moves a key to these groups; with none, it is removed."""
        for group in self._groups_of.pop(key, ()):
            self._groups[group].pop(key, None)
            if not self._groups[group]:
                del self._groups[group]
        if names := tuple(dict.fromkeys(groups)):
            self._groups_of[key] = names
            for group in names:
                self._groups.setdefault(group, {})[key] = None

    def members(self, group: str) -> tuple[str, ...]:
        return tuple(self._groups.get(group, ()))


class VolumeIndex:
    """The volumes that may be bound to a claim, and the claims that wait for a volume."""

    def __init__(self) -> None:
        self._free: dict[str, dict[str, PersistentVolume]] = {}
        self._class_of: dict[str, str] = {}
        self._referring = KeyGroups()
        self._waiting = KeyGroups()

    def put_volume(self, volume: PersistentVolume) -> None:
        name, reference = volume.metadata.name, volume.spec.claim_ref
        self._drop_free(name)
        if reference is None or not reference.uid or volume.status.phase not in _ENDED:
            self._class_of[name] = volume_class(volume)
            self._free.setdefault(self._class_of[name], {})[name] = volume
        self._referring.put(name, () if reference is None else (f"{reference.namespace}/{reference.name}",))

    def drop_volume(self, volume: PersistentVolume) -> None:
        self._drop_free(volume.metadata.name)
        self._referring.put(volume.metadata.name, ())

    def put_claim(self, claim: PersistentVolumeClaim) -> None:
        if is_claim_bound(claim):
            self.drop_claim(claim)
        elif claim.spec.volume_name:
            self._waiting.put(key_of(claim), (f"volume {claim.spec.volume_name}",))
        else:
            self._waiting.put(key_of(claim), (f"class {claim_class(claim)}",))

    def drop_claim(self, claim: PersistentVolumeClaim) -> None:
        self._waiting.put(key_of(claim), ())

    def candidates(self, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
        """The volumes that are not bound yet: those that refer to a claim, and those of its class."""
        referring = [
            self._free[self._class_of[name]][name] for name in self.volumes_of(claim) if name in self._class_of
        ]
        return [*referring, *self._free.get(claim_class(claim), {}).values()]

    def volumes_of(self, claim: PersistentVolumeClaim) -> tuple[str, ...]:
        """The names of the volumes that refer to a claim."""
        return self._referring.members(key_of(claim))

    def claims_for(self, volume: PersistentVolume) -> tuple[str, ...]:
        """The keys of the claims that a free volume may suit: the one it is reserved for, or all that wait for one."""
        reference = volume.spec.claim_ref
        if reference is not None:
            return (f"{reference.namespace}/{reference.name}",)
        named = self._waiting.members(f"volume {volume.metadata.name}")
        return named + self.claims_of_class(volume_class(volume))

    def claims_of_class(self, name: str) -> tuple[str, ...]:
        """The keys of the unbound claims of a class."""
        return self._waiting.members(f"class {name}")

    def _drop_free(self, name: str) -> None:
        found = self._class_of.pop(name, None)
        if found is not None:
            del self._free[found][name]
            if not self._free[found]:
                del self._free[found]


class PodsByClaim:
    """The pods that use each claim, by the keys of both."""

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}
        self._users = KeyGroups()

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(PODS, changed=self.put, deleted=self.remove)

    def put(self, pod: Pod) -> None:
        claims = [f"{pod.metadata.namespace}/{name}" for _, name in pod_claims(pod)]
        self._users.put(pod_label(pod), claims)
        if claims:
            self._pods[pod_label(pod)] = pod
        else:
            self._pods.pop(pod_label(pod), None)

    def remove(self, pod: Pod) -> None:
        self._users.put(pod_label(pod), ())
        self._pods.pop(pod_label(pod), None)

    def using(self, claim_key: str) -> tuple[Pod, ...]:
        return tuple(self._pods[key] for key in self._users.members(claim_key))
