"""Explains a pod: asks its node, or without an answer derives the explanation from the API server."""

from pathlib import Path

from pykubelet.aio.clock import Clock, SystemClock
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.core import Event, Node, Pod
from pykubelet.api.scheme import EVENTS, NODES, PODS
from pykubelet.api.serializer import DecodeError, decode
from pykubelet.app.program import find_rest_config
from pykubelet.client.interface import Selection
from pykubelet.client.rest import RestClient, RestClientLimits
from pykubelet.kubelet.explain.explainer import explain_from_api, node_problem, with_api_finalizers
from pykubelet.kubelet.explain.explanation import Explanation

# A hung node must not delay the answer.
_PATIENCE = RestClientLimits(connect_seconds=10.0, request_seconds=15.0)
_PAGE = ("pykubelet", "why")
# The maximum of nodes asked for a pod that the API server does not have.
_NODES = 20


async def why(kubeconfig: Path | None, namespace: str, name: str) -> Explanation:
    """Explain a pod. Raises ApiError if there is no information, CannotStart without a kubeconfig."""
    clock = SystemClock()
    access = find_rest_config(kubeconfig, clock)
    async with RestClient(access, clock=clock, limits=_PATIENCE) as client:
        return await explained(client, namespace or access.namespace, name, clock)


async def explained(client: RestClient, namespace: str, name: str, clock: Clock) -> Explanation:
    """Explain a pod through a client."""
    try:
        pod = await client.get(PODS, name, namespace=namespace)
    except NotFound as error:
        # A static pod may have no mirror, or another name in its manifest.
        found = await _by_any_node(client, namespace, name)
        if found is None:
            raise error from None
        return found
    node = pod.spec.node_name
    answer = await _by_node(client, node, namespace, name) if node else None
    if answer is not None:
        return with_api_finalizers(answer, pod)
    problem = node_problem(await _node(client, node)) if node else ""
    return explain_from_api(pod, await _events(client, pod), node_problem=problem, now=clock.now())


async def _by_any_node(client: RestClient, namespace: str, name: str) -> Explanation | None:
    try:
        nodes = (await client.list(NODES, limit=_NODES)).items
    except ApiError:
        # Listing nodes may be forbidden; the missing pod is the error to report.
        return None
    for node in nodes:
        if found := await _by_node(client, node.metadata.name, namespace, name):
            return found
    return None


async def _by_node(client: RestClient, node: str, namespace: str, name: str) -> Explanation | None:
    """The node's explanation; None if the node cannot be reached or does not serve this page."""
    try:
        return decode(await client.node_page(node, *_PAGE, namespace, name), Explanation)
    except (ApiError, DecodeError):
        return None


async def _node(client: RestClient, name: str) -> Node | None:
    try:
        return await client.get(NODES, name)
    except NotFound:
        return None


async def _events(client: RestClient, pod: Pod) -> tuple[Event, ...]:
    meta = pod.metadata
    about = Selection(fields=f"involvedObject.name={meta.name},involvedObject.uid={meta.uid}")
    try:
        return (await client.list(EVENTS, namespace=meta.namespace, selection=about)).items
    except ApiError:
        # Without permission to read events the pod's status remains.
        return ()
