"""Gathers what `describe` shows: the object, its events, and related objects.

Upstream: staging/src/k8s.io/kubectl/pkg/describe/describe.go
"""

from collections.abc import Awaitable, Callable, Mapping

from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.schema import ENDPOINT_SLICES, EVENTS, LEASES, PODS, REPLICA_SETS, Resource
from pykubelet.api.serializer import Document
from pykubelet.cli.actions.polymorphichelpers import selector_of_pods
from pykubelet.cli.actions.session import ApiSession
from pykubelet.cli.printers.describe.report import DescribedObject
from pykubelet.client.interface import Selection

_MIRROR = "kubernetes.io/config.mirror"
_LEASES = "kube-node-lease"
_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
_LIMITS = Resource("", "v1", "limitranges", "LimitRange")


_Related = Mapping[str, list[Document] | None]
"""Related objects by plural name; None for those that are forbidden."""


async def by_name_or_prefix(session: ApiSession, resource: Resource, namespace: str, name: str) -> list[Document]:
    """The object with a name, or else all whose names begin with it; NotFound if there are none."""
    try:
        return [await session.get(resource, namespace, name)]
    except NotFound:
        alike = [
            one for one in await session.list(resource, namespace) if str(one["metadata"]["name"]).startswith(name)
        ]
        if not alike:
            raise
        return alike


async def gather(session: ApiSession, resource: Resource, document: Document) -> DescribedObject:
    """Gather everything that is shown of an object."""
    gatherer = _RELATED.get((resource.group, resource.kind))
    related = await gatherer(session, document) if gatherer is not None else {}
    events = await _events(session, document)
    return DescribedObject(object=document, events=events, related=related, now=session.clock.now())


async def _events(session: ApiSession, document: Document) -> list[Document]:
    metadata = document["metadata"]
    uids = [str((metadata.get("annotations") or {}).get(_MIRROR) or metadata.get("uid", ""))]
    if document.get("kind") == "Node":
        # Events about a node carry its UID if they come from a controller, its name if from its kubelet.
        uids.append(metadata["name"])
    found: list[Document] = []
    for uid in uids:
        about = {"name": metadata["name"], "namespace": metadata.get("namespace", ""), "kind": document.get("kind", "")}
        fields = ",".join(f"involvedObject.{key}={value}" for key, value in {**about, "uid": uid}.items() if value)
        found += await _visible(session, EVENTS, metadata.get("namespace", ""), Selection(fields=fields)) or ()
    return found


async def _visible(
    session: ApiSession, resource: Resource, namespace: str, selection: Selection
) -> list[Document] | None:
    """The objects of a list; None if it is forbidden or not served."""
    try:
        return await session.list(resource, namespace, selection)
    except ApiError:
        return None


async def _of_node(session: ApiSession, document: Document) -> _Related:
    name = document["metadata"]["name"]
    there = f"spec.nodeName={name},status.phase!=Succeeded,status.phase!=Failed"
    leases = await _visible(session, LEASES, _LEASES, Selection(fields=f"metadata.name={name}"))
    return {"pods": await _visible(session, PODS, "", Selection(fields=there)), "leases": leases}


async def _of_owner(session: ApiSession, document: Document) -> _Related:
    chosen = Selection(selector_of_pods(document))
    return {"pods": await _visible(session, PODS, document["metadata"]["namespace"], chosen)}


async def _of_deployment(session: ApiSession, document: Document) -> _Related:
    chosen = Selection(selector_of_pods(document))
    return {"replicasets": await _visible(session, REPLICA_SETS, document["metadata"]["namespace"], chosen)}


async def _of_service(session: ApiSession, document: Document) -> _Related:
    metadata = document["metadata"]
    chosen = Selection(f"kubernetes.io/service-name={metadata['name']}")
    return {"endpointslices": await _visible(session, ENDPOINT_SLICES, metadata["namespace"], chosen)}


async def _of_namespace(session: ApiSession, document: Document) -> _Related:
    name = document["metadata"]["name"]
    return {one.plural: await _visible(session, one, name, Selection()) for one in (_QUOTAS, _LIMITS)}


_RELATED: dict[tuple[str, str], Callable[[ApiSession, Document], Awaitable[_Related]]] = {
    ("", "Node"): _of_node,
    ("", "Service"): _of_service,
    ("", "Namespace"): _of_namespace,
    ("apps", "Deployment"): _of_deployment,
    ("apps", "ReplicaSet"): _of_owner,
    ("apps", "StatefulSet"): _of_owner,
    ("apps", "DaemonSet"): _of_owner,
}
