"""Short builders of valid objects: `pod("web", image="nginx:1")`.

Every field has a default, so a test names only the fields that matter to it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pykubelet.api import serializer
from pykubelet.api.generated.core import ConfigMap, Container, Node, Pod, PodSpec, PodStatus, Secret
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.pods import CONFIG_HASH, CONFIG_MIRROR, CONFIG_SOURCE


def container(name: str = "main", *, image: str = "example/image:1", **fields: Any) -> Container:
    """A container; `fields` are further fields of Container."""
    return Container(name=name, image=image, **fields)


def pod(
    name: str = "web",
    *,
    namespace: str = "default",
    uid: str = "",
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    containers: Sequence[Container] | None = None,
    status: PodStatus | None = None,
    node_name: str = "node-1",
    **spec: Any,
) -> Pod:
    """A pod bound to a node; its UID is derived from its name unless given. `spec` are further fields of PodSpec."""
    metadata = ObjectMeta(
        name=name,
        namespace=namespace,
        uid=uid or f"uid-{namespace}-{name}",
        annotations=annotations or {},
        labels=labels or {},
    )
    listed = tuple(containers) if containers is not None else (container(),)
    return Pod(
        metadata=metadata,
        spec=PodSpec(containers=listed, node_name=node_name, **spec),
        status=status or PodStatus(phase="Pending"),
    )


def static_pod(name: str = "web-node-1", *, content_hash: str = "hash-1", source: str = "file", **fields: Any) -> Pod:
    """A pod as a file or URL source delivers it: its UID is its hash."""
    annotations = {CONFIG_SOURCE: source, CONFIG_HASH: content_hash, **fields.pop("annotations", {})}
    return pod(name, uid=fields.pop("uid", content_hash), annotations=annotations, **fields)


def mirror_pod(name: str = "web-node-1", *, content_hash: str = "hash-1", uid: str = "mirror-1", **fields: Any) -> Pod:
    """A mirror pod as the API source delivers it."""
    annotations = {CONFIG_SOURCE: "api", CONFIG_HASH: content_hash, CONFIG_MIRROR: content_hash}
    return pod(name, uid=uid, annotations=annotations, **fields)


def node(name: str = "node-1", *, uid: str = "node-uid", annotations: Mapping[str, str] | None = None) -> Node:
    return Node(metadata=ObjectMeta(name=name, uid=uid, annotations=annotations or {}))


def secret(name: str, data: Mapping[str, bytes] | None = None, *, namespace: str = "default", **fields: Any) -> Secret:
    return Secret(metadata=ObjectMeta(name=name, namespace=namespace), data=data or {}, **fields)


def config_map(
    name: str, data: Mapping[str, str] | None = None, *, namespace: str = "default", **fields: Any
) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=data or {}, **fields)


def manifest(value: Any) -> bytes:
    """An object as JSON text, for a manifest file."""
    return serializer.encode(value)
