"""Defaults of a volume: its kind, modes of files, details of storage systems.

In: a volume in normal form. Out: the same with Kubernetes' defaults.

Upstream: the SetDefaults functions of volumes in pkg/apis/core/v1/defaults.go, and what
pkg/apis/core/v1/zz_generated.defaults.go fills in around them
"""

from collections.abc import Callable, Mapping

from pykubelet.api.defaults.container_defaults import default_field_references
from pykubelet.api.wire import Document

_FILE_MODE = {"defaultMode": 0o644}
_TOKEN_SECONDS = 3600


def default_volume(volume: Document) -> Document:
    """The volume with everything that the API fills in; one without any source is an empty directory."""
    if volume.keys() <= {"name"}:
        return {**volume, "emptyDir": {}}
    return {name: default_volume_source(name, source) for name, source in volume.items()}


def default_volume_source(kind: str, source: Document) -> Document:
    """The source of a volume, of this kind, with everything that the API fills in."""
    return _SOURCES[kind](source) if kind in _SOURCES else source


def _filled(**defaults: object) -> Callable[[Document], Document]:
    def fill(source: Document) -> Document:
        return {**defaults, **source}

    return fill


def _downward(source: Document) -> Document:
    return {**_FILE_MODE, **_downward_items(source)}


def _downward_items(source: Document) -> Document:
    if "items" not in source:
        return source
    return {**source, "items": [default_field_references(item) for item in source["items"]]}


def _projected(source: Document) -> Document:
    result = {**_FILE_MODE, **source}
    if "sources" in source:
        result["sources"] = [_projection(projection) for projection in source["sources"]]
    return result


def _projection(projection: Document) -> Document:
    result = projection
    if "downwardAPI" in projection:
        result = {**result, "downwardAPI": _downward_items(projection["downwardAPI"])}
    if "serviceAccountToken" in projection:
        token = {"expirationSeconds": _TOKEN_SECONDS, **projection["serviceAccountToken"]}
        result = {**result, "serviceAccountToken": token}
    return result


def _ephemeral(source: Document) -> Document:
    template = source.get("volumeClaimTemplate")
    if template is None:
        return source
    spec = {"volumeMode": "Filesystem", **template["spec"]}
    return {**source, "volumeClaimTemplate": {**template, "spec": spec}}


_SOURCES: Mapping[str, Callable[[Document], Document]] = {
    "hostPath": _filled(type=""),
    "secret": _filled(**_FILE_MODE),
    "configMap": _filled(**_FILE_MODE),
    "downwardAPI": _downward,
    "projected": _projected,
    "iscsi": _filled(iscsiInterface="default"),
    "rbd": _filled(pool="rbd", user="admin", keyring="/etc/ceph/keyring"),
    "azureDisk": _filled(cachingMode="ReadWrite", fsType="ext4", readOnly=False, kind="Shared"),
    "scaleIO": _filled(storageMode="ThinProvisioned", fsType="xfs"),
    "ephemeral": _ephemeral,
}
