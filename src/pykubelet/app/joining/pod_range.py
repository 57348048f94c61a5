"""Finds the range of addresses of a node's pods before its runtime opens.

A node keeps its range: it is in `spec.podCIDR`, which cannot change. The node of `up` chooses the range itself, because its
controllers run only after it; a joined node waits until the cluster has assigned one.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Network

from pykubelet.aio.backoff import Backoff, Retries
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import AlreadyExists, ApiError, NotFound
from pykubelet.api.generated.core import Node, NodeSpec
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.scheme import NODES
from pykubelet.app.settings import CannotStart, NodeSettings
from pykubelet.client.interface import Client, PatchType
from pykubelet.controllers.nodeipam.cidr_set import CidrSet
from pykubelet.controllers.nodeipam.range_allocator import pod_cidr_patch

log = get_logger(__name__)

_RETRY = Backoff(first_seconds=0.05, limit_seconds=2.0, jitter=0.2)
_ANSWER_SECONDS = 5.0
"""How long to wait for an API server: a node starts without one, too."""
_SAID_AFTER = 5
"""The attempt after which a waiting node says so."""


async def with_pod_range(settings: NodeSettings, client: Client, cluster: IPv4Network) -> NodeSettings:
    """The settings with the range of the node of `up`; CannotStart if the cluster's range has no part left."""
    nodes = (await client.list(NODES)).items
    own = next((node for node in nodes if node.metadata.name == settings.node_name), None)
    if own is not None and own.spec.pod_cidr:
        return _with_range(settings, own.spec.pod_cidr)
    cidr = settings.node_pod_cidr or first_free(cluster, nodes)
    if cidr is None:
        raise CannotStart(f"the nodes of this cluster have all of {cluster}: choose a larger --cluster-cidr")
    if own is not None:
        await client.patch(NODES, settings.node_name, pod_cidr_patch(own, (cidr,)), patch_type=PatchType.MERGE)
    return _with_range(settings, cidr)


def first_free(cluster: IPv4Network, nodes: tuple[Node, ...]) -> str | None:
    """The first part of a cluster's range that no node has."""
    cidrs = CidrSet(cluster)
    for node in nodes:
        for cidr in node.spec.pod_cidrs:
            cidrs.occupy(cidr)
    return cidrs.allocate_next()


async def with_known_pod_range(settings: NodeSettings, client: Client, *, recorded: str) -> NodeSettings:
    """The settings with the range that the API server has of the node; as they are if there is none.

    If the API server does not answer, `recorded` counts, the range that the node had before.
    """
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            return _with_range(settings, (await client.get(NODES, settings.node_name)).spec.pod_cidr)
    except NotFound:
        return settings
    except (ApiError, TimeoutError) as error:
        log.warning("range of pods not read", node=settings.node_name, cause=str(error), kept=recorded)
        return _with_range(settings, recorded)


async def wait_for_pod_range(settings: NodeSettings, client: Client, say: Callable[[str], None]) -> NodeSettings:
    """The settings with the range that the cluster assigns to the node, which is registered for that."""
    name, retries, attempts = settings.node_name, Retries(_RETRY), 0
    while not (found := await _assigned(client, name, settings.node_pod_cidr)):
        if (attempts := attempts + 1) == _SAID_AFTER:
            say(
                f"node {name} waits until the cluster assigns a range of pods to it: see `kubectl describe node {name}`"
            )
        await asyncio.sleep(retries.next_delay_seconds())
    return _with_range(settings, found)


async def _assigned(client: Client, name: str, wanted: str) -> str:
    """The range of the node, which is created if it does not exist; empty while it has none."""
    try:
        return (await client.get(NODES, name)).spec.pod_cidr
    except NotFound:
        metadata = ObjectMeta(name=name, labels={"kubernetes.io/hostname": name})
        spec = NodeSpec(pod_cidr=wanted, pod_cidrs=(wanted,) if wanted else ())
    except ApiError as error:
        log.warning("range of pods not read", node=name, cause=str(error))
        return ""
    try:
        return (await client.create(NODES, Node(metadata=metadata, spec=spec))).spec.pod_cidr
    except AlreadyExists:
        return ""


def _with_range(settings: NodeSettings, cidr: str) -> NodeSettings:
    return replace(settings, pod_cidr=cidr, node_pod_cidr=cidr) if cidr else settings
