"""Defaults of pods and pod templates: containers, probes, volumes, resources; parses image names.

The input is a document whose fields have the right types. The result is a new document in Kubernetes' normal form,
which shares unchanged parts with the input. Defaulting is idempotent. Raises QuantityError for an invalid quantity.

Upstream: pkg/apis/core/v1/defaults.go, pkg/apis/core/v1/zz_generated.defaults.go, pkg/apis/core/v1/conversion.go,
pkg/util/parsers/parsers.go
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pykubelet.api.field_errors import go_quote
from pykubelet.api.normal_form import normal_form
from pykubelet.api.pod_resources import container_sums, is_huge_page, is_overcommit_allowed, is_pod_level
from pykubelet.api.serializer import Document
from pykubelet.kinds.kind import SpecCache, without_fields

LATEST = "latest"
# Possessive quantifiers keep the search linear.
_DOMAIN_PART = r"[a-zA-Z0-9]++(?:-++[a-zA-Z0-9]++)*+"
_DOMAIN = rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*+|\[[a-fA-F0-9:]+\])(?::[0-9]++)?+"
_PATH_PART = r"[a-z0-9]++(?:(?:__|[._]|-++)[a-z0-9]++)*+"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*+(?:[-_+.][A-Za-z][A-Za-z0-9]*+)*+:[0-9a-fA-F]{32,}"
_REFERENCE = re.compile(
    rf"(?:{_DOMAIN}/)?({_PATH_PART}(?:/{_PATH_PART})*+)(?::([0-9A-Za-z_][0-9A-Za-z_.-]{{0,127}}))?(?:@({_DIGEST}))?"
)
_DIGEST_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}
_LOWER_HEX = re.compile("[a-f0-9]*")
_IDENTIFIER = re.compile("[a-f0-9]{64}")
_MAX_PATH_LENGTH = 255


@dataclass(frozen=True, slots=True)
class ImageName:
    """An image's repository with its registry, tag and digest; without a digest the tag is never empty."""

    repository: str
    tag: str
    digest: str


def parse_image_name(text: str) -> ImageName:
    """Parses an image name; without tag and digest the tag is `latest`."""
    try:
        return _parse(text)
    except ValueError as error:
        raise ValueError(f"couldn't parse image name {go_quote(text)}: {error}") from None


def with_default_tag(text: str) -> str:
    """The name with `:latest` appended if it has neither tag nor digest; ValueError if it is invalid."""
    name = parse_image_name(text)
    # A short name stays short: the runtime resolves its registry.
    return text if name.digest or text.endswith(f":{name.tag}") else f"{text}:{name.tag}"


def _parse(text: str) -> ImageName:
    if _IDENTIFIER.fullmatch(text):
        raise ValueError(f"invalid repository name ({text}), cannot specify 64-byte hexadecimal strings")
    domain, remote = _split_domain(text)
    path_given = remote.partition(":")[0]
    if path_given != path_given.lower():
        raise ValueError(f"invalid reference format: repository name ({path_given}) must be lowercase")
    match = _REFERENCE.fullmatch(f"{domain}/{remote}")
    if match is None:
        raise ValueError("invalid reference format")
    path, tag, digest = match.groups(default="")
    if len(path) > _MAX_PATH_LENGTH:
        raise ValueError(f"repository name must not be more than {_MAX_PATH_LENGTH} characters")
    if digest:
        _check_digest(digest)
    return ImageName(f"{domain}/{path}", tag if tag or digest else LATEST, digest)


def _check_digest(digest: str) -> None:
    algorithm, _, value = digest.partition(":")
    length = _DIGEST_LENGTHS.get(algorithm)
    if length is None:
        raise ValueError("unsupported digest algorithm")
    if len(value) != length:
        raise ValueError("invalid checksum digest length")
    if not _LOWER_HEX.fullmatch(value):
        raise ValueError("invalid checksum digest format")


def _split_domain(image: str) -> tuple[str, str]:
    first, slash, rest = image.partition("/")
    is_domain = first == "localhost" or first != first.lower() or any(char in first for char in ".:")
    if slash and is_domain and first not in {"docker.io", "index.docker.io"}:
        return first, rest
    name = rest if slash and is_domain else image
    return "docker.io", name if "/" in name else f"library/{name}"


_CONTAINER = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("postStart", "preStop")
_FILE_MODE = {"defaultMode": 0o644}
_SPEC = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "schedulerName": "default-scheduler",
}
# Annotations that old kubelets read init containers from; the server removes them.
_DROPPED_ANNOTATIONS = frozenset(
    f"pod.{stage}.kubernetes.io/{name}"
    for stage in ("alpha", "beta")
    for name in ("init-containers", "init-container-statuses")
)
_cache = SpecCache[Document]()


def default_pod(document: Document) -> Document:
    given = document.get("spec") or {}
    spec = _cache.of(given, lambda: _pod_spec(given))
    return _with_spec(normal_form({**document, "spec": {}}, "core.v1.Pod"), spec)


def _pod_spec(given: Document) -> Document:
    spec = _spec(normal_form(given, "core.v1.PodSpec"))
    for kind in ("containers", "initContainers"):
        if kind in spec:
            spec[kind] = _with_requests(spec[kind])
            if spec.get("hostNetwork"):
                spec[kind] = [_with_host_ports(container) for container in spec[kind]]
    if "resources" in spec:
        spec["resources"] = _pod_level_resources(spec)
    spec.setdefault("enableServiceLinks", True)
    # A negative grace period counts as 1, as upstream.
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    return spec


def _spec(normal: Document) -> Document:
    spec = {**_SPEC, "securityContext": {}, **normal}
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        if kind in spec:
            spec[kind] = [default_container(container) for container in spec[kind]]
    if "volumes" in spec:
        spec["volumes"] = [default_volume(volume) for volume in spec["volumes"]]
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    return spec


def default_container(container: Document) -> Document:
    """The container with its defaults, for containers of every type."""
    result = {**_CONTAINER, "imagePullPolicy": default_pull_policy(container.get("image", "")), **container}
    for name in _PROBES:
        if name in result:
            result[name] = _handler({**_PROBE, **result[name]})
    if "lifecycle" in result:
        lifecycle = result["lifecycle"]
        result["lifecycle"] = {**lifecycle, **{name: _handler(lifecycle[name]) for name in _HOOKS if name in lifecycle}}
    if "ports" in result:
        result["ports"] = [{"protocol": "TCP", **port} for port in result["ports"]]
    if "env" in result:
        result["env"] = [_variable(each) if "valueFrom" in each else each for each in result["env"]]
    return result


def default_pull_policy(image: str) -> str:
    """The default pull policy: Always for the tag `latest`, given or implied, else IfNotPresent."""
    try:
        return "Always" if parse_image_name(image).tag == LATEST else "IfNotPresent"
    except ValueError:
        return "IfNotPresent"


def _handler(holder: Document) -> Document:
    if "httpGet" in holder:
        holder = {**holder, "httpGet": {"path": "/", "scheme": "HTTP", **holder["httpGet"]}}
    if "grpc" in holder:
        holder = {**holder, "grpc": {"service": "", **holder["grpc"]}}
    return holder


def _variable(variable: Document) -> Document:
    source = default_field_references(variable["valueFrom"])
    if "fileKeyRef" in source:
        source = {**source, "fileKeyRef": {"optional": False, **source["fileKeyRef"]}}
    return {**variable, "valueFrom": source}


def default_field_references(document: Document) -> Document:
    """The object with the defaults of its `fieldRef`."""
    if "fieldRef" not in document:
        return document
    return {**document, "fieldRef": {"apiVersion": "v1", **document["fieldRef"]}}


def default_volume(volume: Document) -> Document:
    """The volume with its defaults; without a source it is an emptyDir."""
    if volume.keys() <= {"name"}:
        return {**volume, "emptyDir": {}}
    return {name: default_volume_source(name, source) for name, source in volume.items()}


def default_volume_source(kind: str, source: Document) -> Document:
    """The volume source of this type with its defaults."""
    return _SOURCES[kind](source) if kind in _SOURCES else source


def _with_defaults(**defaults: object) -> Callable[[Document], Document]:
    return lambda source: {**defaults, **source}


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
        token = {"expirationSeconds": 3600, **projection["serviceAccountToken"]}
        result = {**result, "serviceAccountToken": token}
    return result


def _ephemeral(source: Document) -> Document:
    template = source.get("volumeClaimTemplate")
    if template is None:
        return source
    spec = {"volumeMode": "Filesystem", **template["spec"]}
    return {**source, "volumeClaimTemplate": {**template, "spec": spec}}


_SOURCES: Mapping[str, Callable[[Document], Document]] = {
    "hostPath": _with_defaults(type=""),
    "secret": _with_defaults(**_FILE_MODE),
    "configMap": _with_defaults(**_FILE_MODE),
    "downwardAPI": _downward,
    "projected": _projected,
    "iscsi": _with_defaults(iscsiInterface="default"),
    "rbd": _with_defaults(pool="rbd", user="admin", keyring="/etc/ceph/keyring"),
    "azureDisk": _with_defaults(cachingMode="ReadWrite", fsType="ext4", readOnly=False, kind="Shared"),
    "scaleIO": _with_defaults(storageMode="ThinProvisioned", fsType="xfs"),
    "ephemeral": _ephemeral,
}


def _with_requests(containers: list[Document]) -> list[Document]:
    """The containers with missing requests set to the limits."""
    return [
        {**each, "resources": {**each["resources"], "requests": {**limits, **each["resources"].get("requests", {})}}}
        if (limits := each["resources"].get("limits"))
        else each
        for each in containers
    ]


def _with_host_ports(container: Document) -> Document:
    """The container with its host ports, for a pod in the host network."""
    if "ports" not in container:
        return container
    ports = [
        {"hostPort": port["containerPort"], **port} if port["containerPort"] else port for port in container["ports"]
    ]
    return {**container, "ports": ports}


def _pod_level_resources(spec: Document) -> Document:
    """The pod-level resources, completed from those of the containers."""
    resources: Document = spec["resources"]
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    if not requests and not limits:
        return resources
    pages = {
        name: str(total)
        for name, total in container_sums(spec, "limits").items()
        if is_huge_page(name) and name not in requests
    }
    limits = {**pages, **limits}
    if limits:
        sums = {
            name: str(total)
            for name, total in container_sums(spec, "requests").items()
            if is_pod_level(name) and is_overcommit_allowed(name)
        }
        from_limits = {name: value for name, value in limits.items() if is_pod_level(name)}
        requests = {**from_limits, **sums, **requests}
    sides = {"limits": limits, "requests": requests}
    return {**resources, **{side: values for side, values in sides.items() if values}}


def _with_spec(pod: Document, spec: Document) -> Document:
    return {**pod, "metadata": _metadata(pod["metadata"]), "spec": spec, "status": _status(pod["status"])}


def _metadata(metadata: Document) -> Document:
    annotations = metadata.get("annotations")
    if not annotations or _DROPPED_ANNOTATIONS.isdisjoint(annotations):
        return metadata
    kept, rest = without_fields(annotations, *_DROPPED_ANNOTATIONS), without_fields(metadata, "annotations")
    return {**rest, "annotations": kept} if kept else rest


def _status(status: Document) -> Document:
    """The status with `podIP` and `podIPs` in agreement."""
    address, addresses = status.get("podIP", ""), status.get("podIPs", [])
    if address and (not addresses or addresses[0]["ip"] != address):
        return {**status, "podIPs": [{"ip": address}]}
    return {**status, "podIP": addresses[0]["ip"]} if addresses and addresses[0]["ip"] else status


def default_patched_pod(document: Document, stored: Document) -> Document:
    """The patched pod with its defaults; skips the spec if the patch did not touch it."""
    spec: Document = stored["spec"]
    if document.get("spec") is not spec:
        return default_pod(document)
    return _with_spec(normal_form({**document, "spec": {}}, "core.v1.Pod"), spec)


def default_pod_template_spec(template: Document) -> Document:
    """The template with its defaults; the remaining ones are set when a pod is created from it."""
    normal = normal_form(template, "core.v1.PodTemplateSpec")
    return {**normal, "metadata": _metadata(normal["metadata"]), "spec": _spec(normal["spec"])}
