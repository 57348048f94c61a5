"""Defaults of a container: pull policy, probes, ports, references.

In: a container of any kind in normal form. Out: the same with Kubernetes' defaults.

Upstream: SetDefaults_Container, SetDefaults_Probe and SetDefaults_HTTPGetAction in pkg/apis/core/v1/defaults.go, and
what pkg/apis/core/v1/zz_generated.defaults.go fills in around them
"""

from pykubelet.api.defaults.image_reference import default_pull_policy
from pykubelet.api.wire import Document

_CONTAINER = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_HTTP_GET = {"path": "/", "scheme": "HTTP"}
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("postStart", "preStop")


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
