"""Mirrors of static pods in the API: create, delete, keep in step.

`MirrorClient` makes single calls; `MirrorKeeper` compares a static pod with its mirror and makes the calls that are
due. Upstream: pkg/kubelet/pod/mirror_client.go, tryReconcileMirrorPods in pkg/kubelet/kubelet.go and the end of
HandlePodCleanups in pkg/kubelet/kubelet_pods.go.

Shows static pods in the API as soon as the node is known there, instead of at their next sync.

Upstream: fastStaticPodsRegistration in pkg/kubelet/kubelet.go.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from pykubelet.aio.log import get_logger
from pykubelet.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from pykubelet.api.generated.core import Node, Pod
from pykubelet.api.pods import CONFIG_MIRROR, MirrorUid, parse_full_name, pod_full_name, pod_label
from pykubelet.api.scheme import PODS
from pykubelet.client.interface import NOW, Reader, Writer, now_if_uid
from pykubelet.client.recorder import WARNING, EventRecorder, reference_to
from pykubelet.kubelet.pod.pod_manager import MirrorCalls, MirrorPlan, PodManager, mirror_of, plan_mirror, pod_hash

log = get_logger(__name__)

FAILED_MIRROR_POD = "FailedMirrorPod"
"""Reason of the event on a static pod that the API server does not let us show."""


class NodeLookup(Protocol):
    """What this node knows of Node objects; answers from memory."""

    def node(self, name: str) -> Node:
        """The Node of this name; ApiError if it is not known (yet)."""


class MirrorPodApi(Reader, Writer, Protocol):
    """Reads and writes pods in the API."""


class NodeUidUnknown(Exception):
    """A mirror must be owned by its Node, and the Node's UID is not known."""


class MirrorNameTaken(AlreadyExists):
    """A pod that is no mirror has the name of the static pod."""


class MirrorClient:
    """Creates and deletes mirrors. Without a client, on a node of its own, both do nothing and succeed."""

    def __init__(self, *, client: MirrorPodApi | None, node_name: str, nodes: NodeLookup) -> None:
        self._client, self._node_name, self._nodes = client, node_name, nodes

    async def create_mirror_pod(self, pod: Pod) -> None:
        """Create the mirror of a static pod; success too if exactly this mirror is there already.

        NodeUidUnknown before anything is sent if the Node cannot be named as owner, ApiError if the server refuses.
        """
        if self._client is None:
            return
        mirror = mirror_of(pod, self._node_name, self._node_uid())
        try:
            await self._client.create(PODS, mirror, namespace=pod.metadata.namespace)
        except AlreadyExists as error:
            await self._accept_existing(self._client, pod, error)

    async def delete_mirror_pod(self, pod_full_name: str, uid: MirrorUid | None) -> bool:
        """Delete a mirror at once, only the one with this UID if given; True if this call deleted it.

        ValueError if the full name is none, and nothing else: a failed call is logged and answered with False.
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

    async def _accept_existing(self, client: MirrorPodApi, pod: Pod, error: AlreadyExists) -> None:
        """Return if the pod in the way is the mirror wanted; upstream means to, but looks into an empty answer."""
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
    """Keeps mirrors in step with static pods. Nothing here raises: what fails is tried again at the next sync."""

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
        """Make the API show `pod`, if it is static, when `mirror` is what the API shows by now."""
        plan = plan_mirror(pod, mirror)
        if plan is MirrorPlan.LEAVE:
            return
        if mirror is not None and not await self._delete(pod_full_name(pod), MirrorUid(mirror.metadata.uid)):
            return
        if self._node_stays(pod):
            await self._create(pod)

    async def delete_orphaned_mirrors(self, full_names: Iterable[str], is_terminating: Callable[[str], bool]) -> None:
        """Delete mirrors that have no static pod any more, but not while that pod is still shutting down.

        `is_terminating` says of a full name whether a static pod of that name has started and is being stopped.
        """
        for name in full_names:
            if not is_terminating(name):
                await self._delete(name, None)

    async def _delete(self, full_name: str, uid: MirrorUid | None) -> bool:
        try:
            deleted = await self._mirrors.delete_mirror_pod(full_name, uid)
        except ValueError as error:
            log.error("mirror pod has no usable name", full_name=full_name, error=error)
            return False
        if deleted:
            log.info("mirror pod deleted", full_name=full_name, uid=uid)
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
        """Whether the Node is known and not about to be removed; its mirrors would only be collected."""
        try:
            node = self._nodes.node(self._node_name)
        except ApiError as error:
            log.debug("no mirror pod yet, the node is not known", pod=pod_label(pod), error=error)
            return False
        return node.metadata.deletion_timestamp is None


def _is_final(error: ApiError) -> bool:
    """Whether someone must act. An outdated mirror in the way is replaced as soon as the watch has shown it."""
    return isinstance(error, MirrorNameTaken) or not (error.retry or isinstance(error, AlreadyExists))


class StaticPodRegistration:
    """Does it once."""

    def __init__(self, *, pods: PodManager, mirrors: MirrorReconciler, node_known: asyncio.Event) -> None:
        self._pods, self._mirrors, self._node_known = pods, mirrors, node_known

    async def run(self, ready: asyncio.Event) -> None:
        """Wait for the node, then see to each static pod's mirror."""
        ready.set()
        await self._node_known.wait()
        for uid, mirror in self._pods.static_to_mirror().items():
            if pod := self._pods.pod_by_uid(uid):
                await self._mirrors.reconcile_mirror_pod(pod, mirror)
