"""Defaults of a pod and of a pod template: what the API fills in when it reads one.

In: a document whose fields have the right types, as a user wrote it. Out: a new one with Kubernetes' defaults, in the
form in which Kubernetes writes it back; what is unchanged is shared with the input, which stays as it was. Defaulting
a second time changes nothing. QuantityError if some quantity is none.

Upstream: SetObjectDefaults_Pod in pkg/apis/core/v1/zz_generated.defaults.go, pkg/apis/core/v1/defaults.go, and the
conversions of pods in pkg/apis/core/v1/conversion.go

Defaults of a volume: its kind, modes of files, details of storage systems.

In: a volume in normal form. Out: the same with Kubernetes' defaults.

Upstream: the SetDefaults functions of volumes in pkg/apis/core/v1/defaults.go, and what
pkg/apis/core/v1/zz_generated.defaults.go fills in around them

Defaults of a container: pull policy, probes, ports, references.

In: a container of any kind in normal form. Out: the same with Kubernetes' defaults.

Upstream: SetDefaults_Container, SetDefaults_Probe and SetDefaults_HTTPGetAction in pkg/apis/core/v1/defaults.go, and
what pkg/apis/core/v1/zz_generated.defaults.go fills in around them

When to pull an image that says nothing about it: Always for `latest`, said or implied.

An image that is no valid reference has no tag, so it counts as not the latest.

Upstream: SetDefaults_Container in pkg/apis/core/v1/defaults.go
"""

from collections.abc import Callable, Mapping

from pykubelet.api.normal_form import normal_form
from pykubelet.api.pod_resources import container_sums, is_huge_page, is_overcommit_allowed, is_pod_level
from pykubelet.api.serializer import Document
from pykubelet.kinds.pod.image_names import LATEST, parse_image_name
from pykubelet.kinds.spec_cache import SpecCache

_CONTAINER = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_HTTP_GET = {"path": "/", "scheme": "HTTP"}
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("postStart", "preStop")
_FILE_MODE = {"defaultMode": 0o644}
_TOKEN_SECONDS = 3600
_SPEC = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "schedulerName": "default-scheduler",
}
# Init containers stood in annotations once; kubelets of that time must not find them there.
_DROPPED_ANNOTATIONS = frozenset(
    f"pod.{stage}.kubernetes.io/{name}"
    for stage in ("alpha", "beta")
    for name in ("init-containers", "init-container-statuses")
)
_families = SpecCache[Document]()


def default_pull_policy(image: str) -> str:
    """The pull policy of a container that names none."""
    try:
        return "Always" if parse_image_name(image).tag == LATEST else "IfNotPresent"
    except ValueError:
        return "IfNotPresent"


def default_container(container: Document) -> Document:
    """The container with everything that the API fills in, whatever kind of container it is."""
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


def default_field_references(document: Document) -> Document:
    """Something that may refer to a field of the pod, with this reference complete."""
    if "fieldRef" not in document:
        return document
    return {**document, "fieldRef": {"apiVersion": "v1", **document["fieldRef"]}}


def _handler(holder: Document) -> Document:
    if "httpGet" in holder:
        holder = {**holder, "httpGet": {**_HTTP_GET, **holder["httpGet"]}}
    if "grpc" in holder:
        holder = {**holder, "grpc": {"service": "", **holder["grpc"]}}
    return holder


def _variable(variable: Document) -> Document:
    source = default_field_references(variable["valueFrom"])
    if "fileKeyRef" in source:
        source = {**source, "fileKeyRef": {"optional": False, **source["fileKeyRef"]}}
    return {**variable, "valueFrom": source}


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


def default_pod(document: Document) -> Document:
    """The pod with everything that the API fills in."""
    given = document.get("spec") or {}
    spec = _families.of(given, lambda: _pod_spec(given))
    return _whole(normal_form({**document, "spec": {}}, "core.v1.Pod"), spec)


def default_patched_pod(document: Document, stored: Document) -> Document:
    """The same for a pod that a patch made of a stored one: a spec that the patch did not touch has its defaults."""
    spec: Document = stored["spec"]
    if document.get("spec") is not spec:
        return default_pod(document)
    return _whole(normal_form({**document, "spec": {}}, "core.v1.Pod"), spec)


def _whole(pod: Document, spec: Document) -> Document:
    return {**pod, "metadata": _metadata(pod["metadata"]), "spec": spec, "status": _status(pod["status"])}


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
    # A negative period made sense to no kubelet; it counts as the shortest.
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    return spec


def default_pod_template_spec(template: Document) -> Document:
    """The template with what the API fills in; the rest is filled in when a pod is made of it."""
    normal = normal_form(template, "core.v1.PodTemplateSpec")
    return {**normal, "metadata": _metadata(normal["metadata"]), "spec": _spec(normal["spec"])}


def _status(status: Document) -> Document:
    """The status with one address and many addresses in agreement."""
    address, addresses = status.get("podIP", ""), status.get("podIPs", [])
    if address and (not addresses or addresses[0]["ip"] != address):
        return {**status, "podIPs": [{"ip": address}]}
    return {**status, "podIP": addresses[0]["ip"]} if addresses and addresses[0]["ip"] else status


def _metadata(metadata: Document) -> Document:
    annotations = metadata.get("annotations")
    if not annotations or _DROPPED_ANNOTATIONS.isdisjoint(annotations):
        return metadata
    kept = {key: value for key, value in annotations.items() if key not in _DROPPED_ANNOTATIONS}
    result = {key: value for key, value in metadata.items() if key != "annotations"}
    return {**result, "annotations": kept} if kept else result


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


def _with_requests(containers: list[Document]) -> list[Document]:
    """The containers with requests where there are limits."""
    return [
        {**each, "resources": {**each["resources"], "requests": {**limits, **each["resources"].get("requests", {})}}}
        if (limits := each["resources"].get("limits"))
        else each
        for each in containers
    ]


def _with_host_ports(container: Document) -> Document:
    """The container with the ports of the host that it shares."""
    if "ports" not in container:
        return container
    ports = [
        {"hostPort": port["containerPort"], **port} if port["containerPort"] else port for port in container["ports"]
    ]
    return {**container, "ports": ports}


def _pod_level_resources(spec: Document) -> Document:
    """The resources of the whole pod, completed from those of its containers where they are set in part."""
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
        asked = {name: value for name, value in limits.items() if is_pod_level(name)}
        requests = {**asked, **sums, **requests}
    sides = {"limits": limits, "requests": requests}
    return {**resources, **{side: values for side, values in sides.items() if values}}
