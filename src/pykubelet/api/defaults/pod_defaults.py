"""Defaults of a pod and of a pod template: what the API fills in when it reads one.

In: a document whose fields have the right types, as a user wrote it. Out: a new one with Kubernetes' defaults, in the
form in which Kubernetes writes it back; what is unchanged is shared with the input, which stays as it was. Defaulting
a second time changes nothing. QuantityError if some quantity is none.

Upstream: SetObjectDefaults_Pod in pkg/apis/core/v1/zz_generated.defaults.go, pkg/apis/core/v1/defaults.go, and the
conversions of pods in pkg/apis/core/v1/conversion.go
"""

from pykubelet.api.defaults.container_defaults import default_container
from pykubelet.api.defaults.pod_resources import container_sums, is_huge_page, is_overcommit_allowed, is_pod_level
from pykubelet.api.defaults.volume_defaults import default_volume
from pykubelet.api.families import Families
from pykubelet.api.normal_form import normal_form
from pykubelet.api.wire import Document

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
_families = Families[Document]()


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
