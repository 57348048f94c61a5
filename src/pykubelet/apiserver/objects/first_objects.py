"""What every cluster has from its first moment: four namespaces and two priority classes.

Upstream: pkg/controlplane/controller/systemnamespaces, pkg/registry/scheduling/rest/storage_scheduling.go
"""

from collections.abc import Awaitable, Callable

from pykubelet.api.errors import AlreadyExists
from pykubelet.api.wire import Document, encode
from pykubelet.apiserver.call import ALL_AUTHENTICATED, MASTERS, Answer, Call, Stream, User
from pykubelet.apiserver.registry import Registry

APISERVER = User("system:apiserver", (MASTERS, ALL_AUTHENTICATED))
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_CRITICAL = 2_000_000_000
_PRIORITY_CLASSES: dict[str, Document] = {
    "system-node-critical": {
        "value": _CRITICAL + 1000,
        "description": "Used for system critical pods that must not be moved from their current node.",
    },
    "system-cluster-critical": {
        "value": _CRITICAL,
        "description": "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    },
}


async def ensure_first_objects(handle: Callable[[Call], Awaitable[Answer | Stream]], registry: Registry) -> None:
    """Create what is missing."""
    wanted: list[tuple[str, str, str, str, Document]] = [("", "v1", "namespaces", name, {}) for name in NAMESPACES]
    wanted += [("scheduling.k8s.io", "v1", "priorityclasses", name, rest) for name, rest in _PRIORITY_CLASSES.items()]
    for group, version, plural, name, rest in wanted:
        served = registry.find(group, version, plural)
        if served is None:
            continue
        resource = served.resource
        document = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {"name": name}, **rest}
        call = Call(user=APISERVER, verb="create", served=served, body=encode(document), user_agent="kube-apiserver")
        try:
            await handle(call)
        except AlreadyExists:
            continue
