"""Discovery: the documents at /api, /apis and below, plain and aggregated.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/discovery/group.go,
staging/src/k8s.io/apiserver/pkg/endpoints/discovery/aggregated/handler.go,
staging/src/k8s.io/apiserver/pkg/endpoints/installer.go
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pykubelet.api.serializer import Document, encode
from pykubelet.kinds.kind import Kind

_READ_WRITE = ("get", "patch", "update")
_CONNECT = ("create", "get")
_PROXY = ("create", "delete", "get", "patch", "update")

# Reviews and other kinds that are never stored.
_CREATE_ONLY = ("create",)
# Upstream lists its built-in groups in this order; custom groups follow by name.
_GROUP_ORDER = (
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
)


@dataclass(frozen=True, slots=True)
class Subresource:
    """The verbs and kind of a subresource (empty kind: its resource's), and that kind's group and version."""

    verbs: tuple[str, ...] = _READ_WRITE
    kind: str = ""
    group: str = ""
    version: str = ""


SUBRESOURCES: dict[str, Subresource] = {
    "approval": Subresource(),
    "attach": Subresource(_CONNECT, "PodAttachOptions"),
    "binding": Subresource(_CREATE_ONLY, "Binding"),
    "ephemeralcontainers": Subresource(),
    "eviction": Subresource(_CREATE_ONLY, "Eviction", "policy", "v1"),
    "exec": Subresource(_CONNECT, "PodExecOptions"),
    "finalize": Subresource(("update",)),
    "log": Subresource(("get",)),
    "portforward": Subresource(_CONNECT, "PodPortForwardOptions"),
    "resize": Subresource(),
    "scale": Subresource(_READ_WRITE, "Scale", "autoscaling", "v1"),
    "status": Subresource(),
    "token": Subresource(_CREATE_ONLY, "TokenRequest", "authentication.k8s.io", "v1"),
}
_PROXY_KINDS = {"nodes": "NodeProxyOptions", "pods": "PodProxyOptions", "services": "ServiceProxyOptions"}


def subresource_of(served: Kind, name: str) -> Subresource:
    """The entry of a subresource. An unlisted one is read and written like its resource."""
    if name == "proxy":
        return Subresource(_PROXY, _PROXY_KINDS.get(served.resource.plural, "ProxyOptions"))
    return SUBRESOURCES.get(name, Subresource())


def storage_version_hash(group: str, version: str, kind: str) -> str:
    digest = hashlib.sha256(f"{group}/{version}/{kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def api_versions(address: str) -> Document:
    """The document at /api; `address` is the server's address."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def api_group_list(all_served: Iterable[Kind]) -> Document:
    groups = _versions_by_group(all_served)
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(group, versions) for group, versions in groups.items() if group],
    }


def api_group(all_served: Iterable[Kind], group: str) -> Document | None:
    """The document at /apis/GROUP, or None if there is no such group."""
    versions = _versions_by_group(all_served).get(group)
    if not group or versions is None:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)}


def api_resource_list(all_served: Iterable[Kind], group: str, version: str) -> Document | None:
    """The document at /api/v1 or /apis/GROUP/VERSION, or None if there is no such version."""
    found = _of_version(all_served, group, version)
    if not found:
        return None
    resources = [row for served in found for row in _resource_rows(served)]
    kind: Document = {"kind": "APIResourceList"}
    if group:
        kind["apiVersion"] = "v1"
    return kind | {"groupVersion": found[0].resource.api_version, "resources": resources}


def aggregated(all_served: Iterable[Kind], *, legacy: bool) -> Document:
    """The aggregated document of /api (`legacy`) or /apis."""
    served = tuple(all_served)
    items = [
        {
            "metadata": {"name": group, "creationTimestamp": None} if group else {"creationTimestamp": None},
            "versions": [
                {
                    "version": version,
                    "resources": [_aggregated_resource(one) for one in _of_version(served, group, version)],
                    "freshness": "Current",
                }
                for version in versions
            ],
        }
        for group, versions in _versions_by_group(served).items()
        if bool(group) != legacy
    ]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def etag_of(document: Document) -> str:
    """The quoted hash of a document, for If-None-Match."""
    return f'"{hashlib.sha512(encode(document)).hexdigest().upper()}"'


def _group(name: str, versions: Sequence[str]) -> Document:
    rows = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": rows, "preferredVersion": rows[0]}


def _versions_by_group(all_served: Iterable[Kind]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for served in all_served:
        versions = found.setdefault(served.resource.group, [])
        if served.resource.version not in versions:
            versions.append(served.resource.version)
    rank = {group: place for place, group in enumerate(("", *_GROUP_ORDER))}
    ordered = sorted(found, key=lambda group: (rank.get(group, len(rank)), group))
    return {group: sorted(found[group], key=version_rank) for group in ordered}


def version_rank(version: str) -> tuple[int, int, int, str]:
    """The sort key of versions in Kubernetes' order of preference: v2, v1, v1beta2, v1beta1, v1alpha1, then others by name."""
    major, letters, minor = _version_parts(version)
    if major is None:
        return (3, 0, 0, version)
    stage = {"": 0, "beta": 1, "alpha": 2}[letters]
    return (stage, -major, -minor, version)


def _version_parts(version: str) -> tuple[int | None, str, int]:
    digits = version.removeprefix("v")
    for letters in ("beta", "alpha"):
        major, found, minor = digits.partition(letters)
        if found and major.isdecimal() and minor.isdecimal():
            return int(major), letters, int(minor)
    if version.startswith("v") and digits.isdecimal():
        return int(digits), "", 0
    return None, "", 0


def _of_version(all_served: Iterable[Kind], group: str, version: str) -> list[Kind]:
    found = [one for one in all_served if (one.resource.group, one.resource.version) == (group, version)]
    return sorted(found, key=lambda one: one.resource.plural)


def _resource_rows(served: Kind) -> list[Document]:
    resource = served.resource
    row: Document = {
        "name": resource.plural,
        "singularName": served.singular_name,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(served.verbs),
    }
    row |= _names(served)
    if "watch" in served.verbs:  # a kind that cannot be watched is not stored
        row["storageVersionHash"] = storage_version_hash(resource.group, resource.version, resource.kind)
    return [row, *(_subresource_row(served, name) for name in sorted(served.subresources))]


def _names(served: Kind) -> Document:
    names = {"shortNames": list(served.short_names), "categories": list(served.categories)}
    return {field: values for field, values in names.items() if values}


def _subresource_row(served: Kind, name: str) -> Document:
    known = subresource_of(served, name)
    row: Document = {
        "name": f"{served.resource.plural}/{name}",
        "singularName": "",
        "namespaced": served.resource.namespaced,
    }
    if known.group:
        row |= {"group": known.group, "version": known.version}
    return row | {"kind": known.kind or served.resource.kind, "verbs": list(known.verbs)}


def _aggregated_resource(served: Kind) -> Document:
    resource = served.resource
    row: Document = {
        "resource": resource.plural,
        "responseKind": {"group": "", "version": "", "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": served.singular_name,
        "verbs": list(served.verbs),
    }
    row |= _names(served)
    if served.subresources:
        row["subresources"] = [_aggregated_subresource(served, name) for name in sorted(served.subresources)]
    return row


def _aggregated_subresource(served: Kind, name: str) -> Document:
    known = subresource_of(served, name)
    kind = {"group": known.group, "version": known.version, "kind": known.kind or served.resource.kind}
    return {"subresource": name, "responseKind": kind, "verbs": list(known.verbs)}
