"""What an API server serves, from its own words.

In: an aggregated discovery document. Out: the resources whose objects can be listed and changed.

Upstream: staging/src/k8s.io/client-go/discovery/aggregated_discovery.go.
"""

from collections.abc import Iterator

import msgspec

from pykubelet.api import wire
from pykubelet.api.errors import InternalError
from pykubelet.api.resources import Resource

PATHS = ("/api", "/apis")
ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
NEEDED_VERBS = frozenset({"list", "patch"})


class _Type(msgspec.Struct, frozen=True):
    kind: str = ""


class _Resource(msgspec.Struct, frozen=True, rename="camel"):
    resource: str
    scope: str
    response_kind: _Type | None = None
    verbs: tuple[str, ...] = ()


class _Version(msgspec.Struct, frozen=True):
    version: str
    resources: tuple[_Resource, ...] = ()


class _Name(msgspec.Struct, frozen=True):
    name: str = ""


class _Group(msgspec.Struct, frozen=True):
    metadata: _Name = _Name()
    versions: tuple[_Version, ...] = ()


class _Groups(msgspec.Struct, frozen=True):
    items: tuple[_Group, ...]


def read_discovery(body: bytes) -> tuple[Resource, ...]:
    """Every resource that can be listed and patched, in the server's order: preferred versions come first."""
    try:
        groups = wire.decode(body, _Groups)
    except wire.DecodeError as error:
        raise InternalError(f"the server's discovery cannot be read: {error}") from error
    return tuple(resource for group in groups.items for resource in _resources(group))


def _resources(group: _Group) -> Iterator[Resource]:
    for version in group.versions:
        for row in version.resources:
            if set(row.verbs) >= NEEDED_VERBS and row.response_kind is not None:
                yield Resource(
                    group.metadata.name,
                    version.version,
                    row.resource,
                    row.response_kind.kind,
                    namespaced=row.scope == "Namespaced",
                )
