"""Defaults of a pod and of a pod template: what the API fills in when it reads one.

In: a document whose fields have the right types, as a user wrote it. Out: a new one with Kubernetes' defaults, in the
form in which Kubernetes writes it back; what is unchanged is shared with the input, which stays as it was. Defaulting
a second time changes nothing. QuantityError if some quantity is none.

Upstream: SetObjectDefaults_Pod in pkg/apis/core/v1/zz_generated.defaults.go, pkg/apis/core/v1/defaults.go, and the
conversions of pods in pkg/apis/core/v1/conversion.go
"""

from pykubelet.api.defaults.container_defaults import default_container
from pykubelet.api.defaults.pod_resources import container_sums, is_huge_page, is_overcommit_allowed, is_pod_level
from pykubelet.api.defaults.quantities import canonical_requirements, canonical_resource_list
from pykubelet.api.defaults.volume_defaults import default_volume
from pykubelet.api.defaults.zero_values import without_zero_values
from pykubelet.api.wire import Document

_SPEC = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "schedulerName": "default-scheduler",
}
_STATUS_LISTS = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
# Init containers stood in annotations once; kubelets of that time must not find them there.
_DROPPED_ANNOTATIONS = frozenset(
    f"pod.{stage}.kubernetes.io/{name}"
    for stage in ("alpha", "beta")
    for name in ("init-containers", "init-container-statuses")
)


def default_pod(document: Document) -> Document:
    """The pod with everything that the API fills in."""
    result = {**document, "metadata": _metadata(document.get("metadata") or {})}
    spec = _spec(document.get("spec") or {})
    spec = {**spec, **_containers(spec)}
    if "resources" in spec:
        spec["resources"] = _pod_level_resources(spec)
    spec.setdefault("enableServiceLinks", True)
    # A negative period made sense to no kubelet; it counts as the shortest.
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    return {**result, "spec": spec, "status": _status(document.get("status") or {})}


def default_pod_template_spec(template: Document) -> Document:
    """The template with what the API fills in; the rest is filled in when a pod is made of it."""
    return {
        **template,
        "metadata": _metadata(template.get("metadata") or {}),
        "spec": _spec(template.get("spec") or {}),
    }


def _metadata(metadata: Document) -> Document:
    result = without_zero_values(metadata, "metadata")
    if not _DROPPED_ANNOTATIONS & set(result.get("annotations", ())):
        return result
    kept = {key: value for key, value in result["annotations"].items() if key not in _DROPPED_ANNOTATIONS}
    del result["annotations"]
    return {**result, "annotations": kept} if kept else result


def _spec(document: Document) -> Document:
    spec = {**_SPEC, **without_zero_values(document, "spec")}
    spec["securityContext"] = _security_context(spec.get("securityContext", {}))
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        if kind in spec:
            spec[kind] = [default_container(container) for container in spec[kind]]
    if "volumes" in spec:
        spec["volumes"] = [default_volume(volume) for volume in spec["volumes"]]
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    if "overhead" in spec:
        spec["overhead"] = canonical_resource_list(spec["overhead"])
    if "resources" in spec:
        spec["resources"] = canonical_requirements(spec["resources"])
    return spec


def _security_context(context: Document) -> Document:
    if "sysctls" not in context:
        return context
    return {**context, "sysctls": [{"value": "", **sysctl} for sysctl in context["sysctls"]]}


def _containers(spec: Document) -> Document:
    """The containers of a pod with requests where there are limits, and with the ports of the host they share."""
    host_network = spec.get("hostNetwork", False)
    return {
        kind: [_pod_container(container, host_network=host_network) for container in spec[kind]]
        for kind in ("containers", "initContainers")
        if kind in spec
    }


def _pod_container(container: Document, *, host_network: bool) -> Document:
    result = container
    limits = container["resources"].get("limits")
    if limits:
        requests = {**limits, **container["resources"].get("requests", {})}
        result = {**result, "resources": {**container["resources"], "requests": requests}}
    if host_network and "ports" in container:
        ports = [
            {**port, "hostPort": port.get("hostPort") or port.get("containerPort", 0)} for port in container["ports"]
        ]
        result = {**result, "ports": [port if port["hostPort"] else _without(port, "hostPort") for port in ports]}
    return result


def _without(document: Document, name: str) -> Document:
    return {key: value for key, value in document.items() if key != name}


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


def _status(status: Document) -> Document:
    result = {name: value for name, value in status.items() if value is not None}
    for kind in _STATUS_LISTS:
        if kind in result:
            result[kind] = [_container_status(each) for each in result[kind]]
    address, addresses = result.get("podIP", ""), result.get("podIPs", [])
    if address and (not addresses or addresses[0].get("ip") != address):
        result["podIPs"] = [{"ip": address}]
    elif addresses:
        result["podIP"] = addresses[0].get("ip", "")
    return result


def _container_status(status: Document) -> Document:
    result = status
    if status.get("allocatedResources"):
        result = {**result, "allocatedResources": canonical_resource_list(status["allocatedResources"])}
    if status.get("resources"):
        result = {**result, "resources": canonical_requirements(status["resources"])}
    return result
