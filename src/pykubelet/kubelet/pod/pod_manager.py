"""The pod manager: the desired pods of the node by UID and name, and their mirror pods.

Regular pods (static ones included) and mirror pods are kept apart. Objects are frozen, so readers get the stored ones.
Upstream's gauge of ephemeral containers is not kept.

Upstream: pkg/kubelet/pod/pod_manager.go, pkg/kubelet/kubelet.go
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from pykubelet.api.generated.core import Pod
from pykubelet.api.generated.meta import OwnerReference
from pykubelet.api.pods import (
    CONFIG_HASH,
    CONFIG_MIRROR,
    NO_MIRROR,
    MirrorUid,
    PodUid,
    full_name,
    is_mirror_pod,
    is_static_pod,
    is_terminal,
    pod_full_name,
)


class MirrorPlan(Enum):
    """What to do about the mirror pod of one pod."""

    LEAVE = "leave"
    CREATE = "create"
    REPLACE = "replace"


def pod_hash(pod: Pod) -> str:
    """The hash that a mirror pod of this pod must carry; empty if the pod has none."""
    return pod.metadata.annotations.get(CONFIG_HASH, "")


def is_mirror_pod_of(mirror: Pod, pod: Pod) -> bool:
    """Whether `mirror` is the mirror pod of exactly this version of `pod`: same name, namespace and hash."""
    if (mirror.metadata.name, mirror.metadata.namespace) != (pod.metadata.name, pod.metadata.namespace):
        return False
    return mirror.metadata.annotations.get(CONFIG_MIRROR) == pod_hash(pod)


def plan_mirror(pod: Pod, mirror: Pod | None) -> MirrorPlan:
    """What to do about `mirror`, the pod of this name in the API; one that is being deleted is replaced at once."""
    if not is_static_pod(pod):
        return MirrorPlan.LEAVE
    if mirror is None:
        return MirrorPlan.CREATE
    if mirror.metadata.deletion_timestamp is not None or not is_mirror_pod_of(mirror, pod):
        return MirrorPlan.REPLACE
    return MirrorPlan.LEAVE


def mirror_of(pod: Pod, node_name: str, node_uid: str) -> Pod:
    """The mirror pod of a static pod: the pod with its hash as annotation, owned by the node alone.

    The NodeRestriction admission plugin rejects any other owner. The server assigns the UID.
    """
    owner = OwnerReference(api_version="v1", kind="Node", name=node_name, uid=node_uid, controller=True)
    annotations = {**pod.metadata.annotations, CONFIG_MIRROR: pod_hash(pod)}
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations, owner_references=(owner,)))


class ReferenceRegistry(Protocol):
    """Keeps the secrets and config maps that pods reference; SecretManager and ConfigMapManager."""

    def register_pod(self, pod: Pod) -> None:
        """Keep the objects that this pod references; idempotent."""

    def unregister_pod(self, pod: Pod) -> None:
        """Release the objects that this pod references; idempotent."""


class MirrorCalls(Protocol):
    """Creates and deletes mirror pods; MirrorClient."""

    async def create_mirror_pod(self, pod: Pod) -> None:
        """Create the mirror pod of a static pod."""

    async def delete_mirror_pod(self, pod_full_name: str, uid: MirrorUid | None) -> bool:
        """Delete a mirror pod; return whether this call deleted it."""


class PodsAndMirrorPods(NamedTuple):
    """All pods and mirror pods, and the full names of orphaned mirror pods, from one reading."""

    pods: tuple[Pod, ...]
    mirror_pods: tuple[Pod, ...]
    orphaned_mirror_pod_names: tuple[str, ...]


class UidTranslations(NamedTuple):
    """UIDs of static pods to those of mirror pods and back; NO_MIRROR for a static pod without one."""

    pod_to_mirror: dict[PodUid, MirrorUid]
    mirror_to_pod: dict[MirrorUid, PodUid]


class PodPair(NamedTuple):
    """A pod and its mirror pod, as far as known, and whether the mirror pod was asked about."""

    pod: Pod | None
    mirror_pod: Pod | None
    was_mirror: bool


class PodManager:
    """The desired pods of this node. Only calls about mirror pods wait.

    The collaborators are optional. Every regular pod is registered with `secrets` and `config_maps` while it may run,
    and unregistered when it has terminated or is deleted. `create_mirror_pod` and `delete_mirror_pod` call `mirror`;
    without it they do nothing and succeed, as on a node without an API server.
    """

    def __init__(
        self,
        *,
        mirror: MirrorCalls | None = None,
        secrets: ReferenceRegistry | None = None,
        config_maps: ReferenceRegistry | None = None,
    ) -> None:
        self._mirror = mirror
        self._registries = tuple(registry for registry in (secrets, config_maps) if registry is not None)
        self._pods_by_uid: dict[PodUid, Pod] = {}
        self._pods_by_full_name: dict[str, Pod] = {}
        self._mirrors_by_uid: dict[MirrorUid, Pod] = {}
        self._mirrors_by_full_name: dict[str, Pod] = {}
        self._translations: dict[MirrorUid, PodUid] = {}
        # A dict as ordered set: full names with a mirror pod and no regular pod.
        self._orphans: dict[str, None] = {}

    def set_pods(self, pods: Iterable[Pod]) -> None:
        """Replace all pods by these, in their order."""
        former = dict(self._pods_by_uid)
        for index in (self._pods_by_uid, self._pods_by_full_name, self._mirrors_by_uid, self._mirrors_by_full_name):
            index.clear()
        self._translations.clear()
        self._orphans.clear()
        for pod in pods:
            self.update_pod(pod)
        for uid, pod in former.items():
            if uid not in self._pods_by_uid:
                self._unregister(pod)

    def add_pod(self, pod: Pod) -> None:
        """Add a pod or a mirror pod; the same as `update_pod`."""
        self.update_pod(pod)

    def update_pod(self, pod: Pod) -> None:
        """Add or update a pod or a mirror pod."""
        name = pod_full_name(pod)
        if is_mirror_pod(pod):
            mirror_uid = MirrorUid(pod.metadata.uid)
            self._mirrors_by_uid[mirror_uid] = pod
            self._mirrors_by_full_name[name] = pod
            if counterpart := self._pods_by_full_name.get(name):
                self._translations[mirror_uid] = PodUid(counterpart.metadata.uid)
        else:
            uid = PodUid(pod.metadata.uid)
            self._pods_by_uid[uid] = pod
            self._pods_by_full_name[name] = pod
            if counterpart := self._mirrors_by_full_name.get(name):
                self._translations[MirrorUid(counterpart.metadata.uid)] = uid
            if is_terminal(pod.status.phase):
                self._unregister(pod)
            else:
                self._register(pod)
        self._judge_orphan(name)

    def delete_pod(self, pod: Pod) -> None:
        """Remove a pod or a mirror pod.

        As upstream, the name is removed even if a newer pod has it by now: replace a pod in the order delete, add. A
        deleted static pod's UID stays the translation of its mirror pod until that is removed too.
        """
        name = pod_full_name(pod)
        if is_mirror_pod(pod):
            mirror_uid = MirrorUid(pod.metadata.uid)
            self._mirrors_by_uid.pop(mirror_uid, None)
            self._mirrors_by_full_name.pop(name, None)
            self._translations.pop(mirror_uid, None)
        else:
            self._pods_by_uid.pop(PodUid(pod.metadata.uid), None)
            self._pods_by_full_name.pop(name, None)
            self._unregister(pod)
        self._judge_orphan(name)

    def pods(self) -> tuple[Pod, ...]:
        """All regular pods, static ones included, without mirror pods."""
        return tuple(self._pods_by_uid.values())

    def pods_and_mirror_pods(self) -> PodsAndMirrorPods:
        """Regular pods, mirror pods, and the full names of mirror pods without a pod, from one reading."""
        return PodsAndMirrorPods(self.pods(), tuple(self._mirrors_by_uid.values()), self.orphaned_mirror_pod_names())

    def orphaned_mirror_pod_names(self) -> tuple[str, ...]:
        """Full names that have a mirror pod and no regular pod."""
        return tuple(self._orphans)

    def static_to_mirror(self) -> dict[PodUid, Pod | None]:
        """The mirror pod of each static pod, or None where there is none yet."""
        return {uid: self.mirror_pod_by_pod(pod) for uid, pod in self._pods_by_uid.items() if is_static_pod(pod)}

    def pod_by_uid(self, uid: PodUid) -> Pod | None:
        """The regular pod with this UID. A mirror pod's UID finds nothing: translate it first."""
        return self._pods_by_uid.get(uid)

    def pod_by_name(self, namespace: str, name: str) -> Pod | None:
        """Finds a pod that is not a mirror by namespace and name."""
        return self.pod_by_full_name(full_name(name, namespace))

    def pod_by_full_name(self, pod_full_name: str) -> Pod | None:
        """Finds a pod that is not a mirror by its full name, `name_namespace`."""
        return self._pods_by_full_name.get(pod_full_name)

    def pod_by_mirror_pod(self, mirror_pod: Pod) -> Pod | None:
        """The regular pod with a mirror pod's name; their hashes may differ."""
        return self.pod_by_full_name(pod_full_name(mirror_pod))

    def mirror_pod_by_pod(self, pod: Pod) -> Pod | None:
        """The mirror pod with a pod's name."""
        return self._mirrors_by_full_name.get(pod_full_name(pod))

    def pod_and_mirror_pod(self, pod: Pod) -> PodPair:
        """A pod or mirror pod together with its counterpart, if known."""
        if is_mirror_pod(pod):
            return PodPair(self.pod_by_mirror_pod(pod), pod, was_mirror=True)
        return PodPair(pod, self.mirror_pod_by_pod(pod), was_mirror=False)

    def translate_pod_uid(self, uid: str) -> PodUid:
        """The UID the node uses: for a mirror pod's UID its static pod's, any other unchanged."""
        # An empty UID belongs to no pod, even if a mirror pod has none.
        return self._translations.get(MirrorUid(uid), PodUid(uid)) if uid else PodUid(uid)

    def uid_translations(self) -> UidTranslations:
        """Both directions at once, for static and mirrored pods only."""
        pod_to_mirror = {uid: NO_MIRROR for uid, pod in self._pods_by_uid.items() if is_static_pod(pod)}
        pod_to_mirror |= {uid: mirror_uid for mirror_uid, uid in self._translations.items()}
        return UidTranslations(pod_to_mirror, dict(self._translations))

    async def create_mirror_pod(self, pod: Pod) -> None:
        """Create the mirror pod of a static pod."""
        if self._mirror is not None:
            await self._mirror.create_mirror_pod(pod)

    async def delete_mirror_pod(self, pod_full_name: str, uid: MirrorUid | None) -> bool:
        """Delete a mirror pod from the API; return whether this call deleted it."""
        return self._mirror is not None and await self._mirror.delete_mirror_pod(pod_full_name, uid)

    def _judge_orphan(self, name: str) -> None:
        if name in self._mirrors_by_full_name and name not in self._pods_by_full_name:
            self._orphans[name] = None
        else:
            self._orphans.pop(name, None)

    def _register(self, pod: Pod) -> None:
        for registry in self._registries:
            registry.register_pod(pod)

    def _unregister(self, pod: Pod) -> None:
        for registry in self._registries:
            registry.unregister_pod(pod)
