"""Reads aggregated discovery documents: the resources that an API server serves.

Upstream: staging/src/k8s.io/client-go/discovery/aggregated_discovery.go
"""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from pykubelet.api import serializer
from pykubelet.api.errors import InternalError
from pykubelet.api.schema import Resource

PATHS = ("/api", "/apis")
ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
APPLIED_VERBS = frozenset({"list", "patch"})
"""The verbs that objects of a manifest need."""


@dataclass(frozen=True, slots=True)
class Discovery:
    """The resources of an API server that support some verbs."""

    resources: tuple[Resource, ...]
    unsure: tuple[str, ...] = ()
    """Stale group versions (`metrics.k8s.io/v1`): their server did not answer lately, so they may have changed."""


@dataclass(frozen=True, slots=True)
class ServedResource:
    """A resource with its singular, short names, categories and verbs."""

    resource: Resource
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: frozenset[str] = frozenset()


class _Type(msgspec.Struct, frozen=True):
    kind: str = ""


class _Resource(msgspec.Struct, frozen=True, rename="camel"):
    resource: str
    scope: str
    response_kind: _Type | None = None
    verbs: tuple[str, ...] = ()
    singular_resource: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class _Version(msgspec.Struct, frozen=True):
    version: str
    resources: tuple[_Resource, ...] = ()
    freshness: str = ""


class _Name(msgspec.Struct, frozen=True):
    name: str = ""


class _Group(msgspec.Struct, frozen=True):
    metadata: _Name = _Name()
    versions: tuple[_Version, ...] = ()


class _Groups(msgspec.Struct, frozen=True):
    items: tuple[_Group, ...]


def read_discovery(body: bytes, verbs: frozenset[str]) -> Discovery:
    """The resources that support the verbs, in the server's order: preferred versions come first."""
    groups = _groups(body)
    resources = tuple(served.resource for group in groups for served in _served(group) if served.verbs >= verbs)
    stale = (
        f"{group.metadata.name}/{version.version}"
        for group in groups
        for version in group.versions
        if version.freshness == "Stale"
    )
    return Discovery(resources, tuple(stale))


def read_catalogue(body: bytes) -> tuple[ServedResource, ...]:
    """Every resource with its names, in the server's order."""
    return tuple(served for group in _groups(body) for served in _served(group))


def _groups(body: bytes) -> tuple[_Group, ...]:
    try:
        return serializer.decode(body, _Groups).items
    except serializer.DecodeError as error:
        raise InternalError(f"the server's discovery cannot be read: {error}") from error


def _served(group: _Group) -> Iterator[ServedResource]:
    for version in group.versions:
        for row in version.resources:
            if row.response_kind is not None:
                resource = Resource(
                    group.metadata.name,
                    version.version,
                    row.resource,
                    row.response_kind.kind,
                    namespaced=row.scope == "Namespaced",
                )
                verbs = frozenset(row.verbs)
                yield ServedResource(resource, row.singular_resource, row.short_names, row.categories, verbs)
