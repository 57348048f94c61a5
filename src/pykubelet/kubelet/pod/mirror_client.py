"""Creates, deletes and reconciles the mirror pods of static pods in the API.

`StaticPodRegistration` creates mirror pods as soon as the API server has the node, before the pods' next sync.

Upstream: pkg/kubelet/pod/mirror_client.go, pkg/kubelet/kubelet.go, pkg/kubelet/kubelet_pods.go
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from pykubelet.aio.log import get_logger
from pykubelet.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from pykubelet.api.generated.core import Node, Pod
from pykubelet.api.pods import CONFIG_MIRROR, MirrorUid, parse_full_name, pod_full_name, pod_label
from pykubelet.api.scheme import PODS
from pykubelet.client.interface import NOW, Client, now_if_uid
from pykubelet.client.recorder import WARNING, EventRecorder, reference_to
from pykubelet.kubelet.pod.pod_manager import MirrorCalls, MirrorPlan, PodManager, mirror_of, plan_mirror, pod_hash

log = get_logger(__name__)

FAILED_MIRROR_POD = "FailedMirrorPod"
"""Reason of the event about a mirror pod that the API server rejects."""


class NodeLookup(Protocol):
    """Reads Node objects from memory; OwnNode, which is above this package."""

    def node(self, name: str) -> Node:
        """The Node of this name; raises ApiError while it is unknown."""


class NodeUidUnknown(Exception):
    """The UID of the Node, which has to own the mirror pod, is unknown."""


class MirrorNameTaken(AlreadyExists):
    """A pod that is not a mirror pod has the static pod's name."""


class MirrorClient:
    """Creates and deletes mirror pods. Without a client both do nothing and succeed."""

    def __init__(self, *, client: Client | None, node_name: str, nodes: NodeLookup) -> None:
        self._client, self._node_name, self._nodes = client, node_name, nodes

    async def create_mirror_pod(self, pod: Pod) -> None:
        """Create the mirror pod of a static pod; succeeds too if exactly this mirror pod exists.

        NodeUidUnknown before any request if the Node is unknown, ApiError if the server rejects it.
        """
        if self._client is None:
            return
        mirror = mirror_of(pod, self._node_name, self._node_uid())
        try:
            await self._client.create(PODS, mirror, namespace=pod.metadata.namespace)
        except AlreadyExists as error:
            await self._accept_existing(self._client, pod, error)

    async def delete_mirror_pod(self, pod_full_name: str, uid: MirrorUid | None) -> bool:
        """Delete a mirror pod at once, only the one with this UID if given; True if this call deleted it.

        ValueError for an invalid full name; any other failure is logged and returns False.
        """
        if self._client is None:
            return False
        name, namespace = parse_full_name(pod_full_name)
        try:
            await self._client.delete(
                PODS, name, namespace=namespace, options=NOW if uid is None else now_if_uid(str(uid))
            )
        except (NotFound, Conflict):
            return False
        except ApiError as error:
            log.warning("mirror pod not deleted", pod=f"{namespace}/{name}", error=error)
            return False
        return True

    def _node_uid(self) -> str:
        try:
            uid = self._nodes.node(self._node_name).metadata.uid
        except ApiError as error:
            raise NodeUidUnknown(f"failed to get node UID: {error}") from error
        if not uid:
            raise NodeUidUnknown(f"failed to get node UID: UID unset for node {self._node_name}")
        return uid

    async def _accept_existing(self, client: Client, pod: Pod, error: AlreadyExists) -> None:
        """Return if the existing pod is the desired mirror pod; upstream checks an empty answer."""
        try:
            existing = await client.get(PODS, pod.metadata.name, namespace=pod.metadata.namespace)
        except ApiError:
            raise error from None
        found = existing.metadata.annotations.get(CONFIG_MIRROR)
        if found is None:
            raise MirrorNameTaken(f'pod "{pod.metadata.name}" exists in the API and is no mirror pod') from error
        if found != pod_hash(pod):
            raise error


class MirrorReconciler:
    """Reconciles mirror pods with static pods. Nothing here raises: the next sync retries."""

    def __init__(
        self,
        *,
        mirrors: MirrorCalls,
        pods: PodManager,
        node_name: str,
        nodes: NodeLookup,
        recorder: EventRecorder | None = None,
    ) -> None:
        self._mirrors, self._pods, self._node_name, self._nodes = mirrors, pods, node_name, nodes
        self._recorder = recorder

    async def reconcile(self, pod: Pod) -> None:
        """Make the API show a static pod as it is now; other pods have no mirror pod."""
        await self.reconcile_mirror_pod(pod, self._pods.mirror_pod_by_pod(pod))

    async def reconcile_mirror_pod(self, pod: Pod, mirror: Pod | None) -> None:
        """Make the API show `pod`, if it is static, where `mirror` is its current mirror pod."""
        plan = plan_mirror(pod, mirror)
        if plan is MirrorPlan.LEAVE:
            return
        if mirror is not None and not await self._delete(pod_full_name(pod), MirrorUid(mirror.metadata.uid)):
            return
        if self._node_stays(pod):
            await self._create(pod)

    async def delete_orphaned_mirrors(self, full_names: Iterable[str], is_terminating: Callable[[str], bool]) -> None:
        """Delete mirror pods without a static pod, unless the pod started under their full name still terminates."""
        for name in full_names:
            if not is_terminating(name):
                await self._delete(name, None)

    async def _delete(self, full_name: str, uid: MirrorUid | None) -> bool:
        try:
            deleted = await self._mirrors.delete_mirror_pod(full_name, uid)
        except ValueError as error:
            log.error("mirror pod has an invalid full name", full_name=full_name, error=error)
            return False
        if deleted:
            name, _, namespace = full_name.rpartition("_")
            log.info("mirror pod deleted", pod=f"{namespace}/{name}")
        return deleted

    async def _create(self, pod: Pod) -> None:
        try:
            await self._mirrors.create_mirror_pod(pod)
        except (ApiError, NodeUidUnknown) as error:
            log.warning("mirror pod not created", pod=pod_label(pod), error=error)
            if isinstance(error, ApiError) and _is_final(error):
                self._report(pod, error)

    def _report(self, pod: Pod, error: ApiError) -> None:
        if self._recorder is not None:
            message = f"The API server does not take the mirror of this static pod: {error}"
            self._recorder.event(reference_to(pod), WARNING, FAILED_MIRROR_POD, message)

    def _node_stays(self, pod: Pod) -> bool:
        """Whether the Node is known and not being deleted; else its mirror pods would be garbage-collected."""
        try:
            node = self._nodes.node(self._node_name)
        except ApiError as error:
            log.debug("mirror pod not created yet: the node is unknown", pod=pod_label(pod), error=error)
            return False
        return node.metadata.deletion_timestamp is None


def _is_final(error: ApiError) -> bool:
    """Whether a retry cannot help. An outdated mirror pod is replaced once the watch has shown it."""
    return isinstance(error, MirrorNameTaken) or not (error.retry or isinstance(error, AlreadyExists))


class StaticPodRegistration:
    """Creates the mirror pods of all static pods once the API server has the node."""

    def __init__(self, *, pods: PodManager, mirrors: MirrorReconciler, node_known: asyncio.Event) -> None:
        self._pods, self._mirrors, self._node_known = pods, mirrors, node_known

    async def run(self, ready: asyncio.Event) -> None:
        """Wait for the node, then reconcile each static pod's mirror pod."""
        ready.set()
        await self._node_known.wait()
        for uid, mirror in self._pods.static_to_mirror().items():
            if pod := self._pods.pod_by_uid(uid):
                await self._mirrors.reconcile_mirror_pod(pod, mirror)
