"""Defaults of a container: pull policy, probes, ports, references.

In: a container of any kind, without zero values. Out: the same with Kubernetes' defaults.

Upstream: SetDefaults_Container, SetDefaults_Probe and SetDefaults_HTTPGetAction in pkg/apis/core/v1/defaults.go, and
what pkg/apis/core/v1/zz_generated.defaults.go fills in around them
"""

from pykubelet.api.defaults.image_reference import default_pull_policy
from pykubelet.api.defaults.quantities import canonical_quantity, canonical_requirements
from pykubelet.api.wire import Document

_CONTAINER = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_HTTP_GET = {"path": "/", "scheme": "HTTP"}
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def default_container(container: Document) -> Document:
    """The container with everything that the API fills in, whatever kind of container it is."""
    result = {
        **_CONTAINER,
        "imagePullPolicy": default_pull_policy(container.get("image", "")),
        **container,
        "resources": canonical_requirements(container.get("resources", {})),
    }
    for name in _PROBES:
        if name in result:
            result[name] = _handler({**_PROBE, **result[name]})
    if "lifecycle" in result:
        hooks = {name: _handler(hook) if name in _HOOKS else hook for name, hook in result["lifecycle"].items()}
        result["lifecycle"] = hooks
    if "ports" in result:
        result["ports"] = [{"protocol": "TCP", **port} for port in result["ports"]]
    if "env" in result:
        result["env"] = [_variable(variable) for variable in result["env"]]
    return result


def default_field_references(document: Document) -> Document:
    """Something that may refer to a field of the pod, or to a container's resources, with these references complete."""
    result = document
    if "fieldRef" in document:
        result = {**result, "fieldRef": {"apiVersion": "v1", **document["fieldRef"]}}
    if "resourceFieldRef" in document:
        reference = document["resourceFieldRef"]
        divisor = canonical_quantity(reference.get("divisor", "0"))
        result = {**result, "resourceFieldRef": {**reference, "divisor": divisor}}
    return result


_HOOKS = frozenset({"postStart", "preStop"})


def _handler(holder: Document) -> Document:
    result = holder
    if "httpGet" in holder:
        result = {**result, "httpGet": _http_get(holder["httpGet"])}
    if "grpc" in holder:
        result = {**result, "grpc": {"service": "", **holder["grpc"]}}
    if "sleep" in holder:
        result = {**result, "sleep": {"seconds": 0, **holder["sleep"]}}
    return result


def _http_get(action: Document) -> Document:
    result = {**_HTTP_GET, **action}
    if "httpHeaders" in action:
        result["httpHeaders"] = [{"value": "", **header} for header in action["httpHeaders"]]
    return result


def _variable(variable: Document) -> Document:
    if "valueFrom" not in variable:
        return variable
    source = default_field_references(variable["valueFrom"])
    if "fileKeyRef" in source:
        source = {**source, "fileKeyRef": {"optional": False, **source["fileKeyRef"]}}
    return {**variable, "valueFrom": source}
