"""The pod garbage collector: deletes pods that no kubelet or other controller will delete.

These are finished pods above a threshold, pods on out-of-service or deleted nodes, and unscheduled pods being deleted.
A pod that had not finished is marked Failed first. A pass costs as much as there is to collect.

Upstream: pkg/controller/podgc/gc_controller.go
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.core import Node, Pod, PodCondition
from pykubelet.api.pods import condition_patch, is_terminal, phase_patch, pod_label
from pykubelet.api.scheme import NODES, PODS
from pykubelet.client.indexer import age_key
from pykubelet.client.informers import Informers, PodsByNode
from pykubelet.client.interface import Client, Selection, now_if_uid
from pykubelet.controllers.framework.pod_control import attempt_all
from pykubelet.controllers.nodelifecycle.node_health import OUT_OF_SERVICE, is_ready

log = get_logger(__name__)
TERMINATED_THRESHOLD = 12_500
QUARANTINE_SECONDS = 40.0
NODE_GONE = PodCondition(
    type="DisruptionTarget", status="True", reason="DeletionByPodGC", message="PodGC: node no longer exists"
)
CHECK_SECONDS = 20.0


class PodGCController:
    """Collects every twenty seconds."""

    def __init__(
        self,
        *,
        client: Client,
        pods_by_node: PodsByNode,
        clock: Clock,
        terminated_threshold: int = TERMINATED_THRESHOLD,
    ) -> None:
        self._client, self._pods_by_node, self._clock = client, pods_by_node, clock
        self._threshold = terminated_threshold
        self._nodes: dict[str, Node] = {}
        self._terminated: dict[str, Pod] = {}
        self._terminating: dict[str, Pod] = {}
        self._missing_since: dict[str, float] = {}

    def listen(self, informers: Informers) -> None:
        """Subscribes to changes of pods and nodes; call it after `pods_by_node.listen`."""
        informers.add_event_handler(PODS, changed=self.pod_changed, deleted=self.pod_gone)
        informers.add_event_handler(NODES, changed=self.node_changed, deleted=self.node_gone)

    def pod_changed(self, pod: Pod) -> None:
        """Records whether the pod has finished or is being deleted."""
        self.pod_gone(pod)
        if is_terminal(pod.status.phase):
            self._terminated[pod_label(pod)] = pod
        if pod.metadata.deletion_timestamp is not None:
            self._terminating[pod_label(pod)] = pod

    def pod_gone(self, pod: Pod) -> None:
        self._terminated.pop(pod_label(pod), None)
        self._terminating.pop(pod_label(pod), None)

    def node_changed(self, node: Node) -> None:
        self._nodes[node.metadata.name] = node

    def node_gone(self, node: Node) -> None:
        self._nodes.pop(node.metadata.name, None)

    async def process_next(self) -> None:
        """Collects, then sleeps until the next pass. For one worker."""
        await self.collect()
        await asyncio.sleep(CHECK_SECONDS)

    async def collect(self) -> None:
        """Deletes all collectable pods; failures are retried in the next pass."""
        await self._delete_all(surplus_terminated_pods(self._terminated.values(), self._threshold))
        await self._delete_all(pods_on_out_of_service_nodes(self._terminating.values(), self._nodes))
        for name in await self._gone_nodes():
            await self._delete_all(self._pods_by_node.on(name), NODE_GONE)
        await self._delete_all(unscheduled_terminating_pods(self._terminating.values()))

    async def _gone_nodes(self) -> list[str]:
        """Nodes that have pods but do not exist, confirmed by the server."""
        at = self._clock.monotonic()
        missing = [name for name in self._pods_by_node.nodes() if name not in self._nodes]
        self._missing_since = quarantined_nodes(self._missing_since, missing, at=at)
        gone = []
        for name in nodes_past_quarantine(self._missing_since, at=at):
            del self._missing_since[name]
            try:
                await self._client.get(NODES, name)
            except NotFound:
                gone.append(name)
            except ApiError as error:
                log.warning("node lookup failed", node=name, cause=str(error))
        return gone

    async def _delete_all(self, pods: Iterable[Pod], condition: PodCondition | None = None) -> None:
        chosen = tuple(pods)
        outcomes = await attempt_all(_delete(self._client, pod, condition, self._clock) for pod in chosen)
        for pod, error in zip(chosen, outcomes, strict=True):
            if error is not None and not isinstance(error, NotFound):
                log.warning("orphaned pod not deleted", pod=pod_label(pod), cause=str(error))


async def remove_node(client: Client, name: str, clock: Clock) -> int:
    """Deletes a node that never returns, after its pods; returns their number. ApiError if that fails."""
    pods = (await client.list(PODS, selection=Selection(fields=f"spec.nodeName={name}"))).items
    for error in await attempt_all(_delete(client, pod, NODE_GONE, clock) for pod in pods):
        if error is not None and not isinstance(error, NotFound):
            raise error
    with suppress(NotFound):
        await client.delete(NODES, name)
    return len(pods)


async def _delete(client: Client, pod: Pod, condition: PodCondition | None, clock: Clock) -> None:
    """Deletes a pod immediately. An unfinished pod is marked Failed, since no kubelet will do so."""
    meta = pod.metadata
    log.info("deleting orphaned pod", pod=pod_label(pod), node=pod.spec.node_name, phase=pod.status.phase)
    if not is_terminal(pod.status.phase):
        patch = phase_patch(pod, "Failed")
        if condition is not None:
            patch = condition_patch(pod, condition, clock.now(), phase="Failed") or patch
        await client.patch(PODS, meta.name, patch, namespace=meta.namespace, subresource="status")
    await client.delete(PODS, meta.name, namespace=meta.namespace, options=now_if_uid(meta.uid))


def surplus_terminated_pods(terminated: Collection[Pod], threshold: int) -> Sequence[Pod]:
    """The finished pods above the threshold, evicted and oldest first; none if the threshold is 0 or less."""
    count = len(terminated) - threshold
    return _in_order(terminated)[:count] if threshold > 0 and count > 0 else ()


def pods_on_out_of_service_nodes(terminating: Iterable[Pod], nodes: Mapping[str, Node]) -> Sequence[Pod]:
    return _in_order(pod for pod in terminating if _is_out_of_service(nodes.get(pod.spec.node_name)))


def unscheduled_terminating_pods(terminating: Iterable[Pod]) -> Sequence[Pod]:
    """Pods being deleted that are on no node, so no kubelet stops them."""
    return [pod for pod in terminating if not pod.spec.node_name]


def quarantined_nodes(since: Mapping[str, float], missing: Iterable[str], *, at: float) -> dict[str, float]:
    """When each missing node was first found missing."""
    return {name: since.get(name, at) for name in missing}


def nodes_past_quarantine(since: Mapping[str, float], *, at: float) -> Sequence[str]:
    """The nodes that have been missing for the whole quarantine."""
    return sorted(name for name, first in since.items() if at - first >= QUARANTINE_SECONDS)


def _is_out_of_service(node: Node | None) -> bool:
    return node is not None and not is_ready(node) and any(each.key == OUT_OF_SERVICE for each in node.spec.taints)


def _in_order(pods: Iterable[Pod]) -> list[Pod]:
    """Sorts evicted pods first, then the oldest."""
    return sorted(pods, key=lambda pod: ((pod.status.phase, pod.status.reason) != ("Failed", "Evicted"), *age_key(pod)))
