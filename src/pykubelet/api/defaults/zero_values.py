"""The document without what says nothing: nulls, and zeros where absent means the same.

Kubernetes reads a document into Go types and writes those back. On the way a null, an empty list and a plain field
that is false, zero or empty are lost, while a field behind a pointer keeps its zero. The names below are the plain
fields of a pod; where one name is plain in one object and a pointer in another, the object decides.

Upstream: the JSON tags in staging/src/k8s.io/api/core/v1/types.go
"""

from collections.abc import Set as AbstractSet
from typing import Any

from pykubelet.api.wire import Document

_PLAIN = frozenset(
    [
        "audience",
        "certificateChainPath",
        "chapAuthDiscovery",
        "chapAuthSession",
        "containerName",
        "credentialBundlePath",
        "datasetName",
        "datasetUUID",
        "directory",
        "dnsPolicy",
        "effect",
        "failureThreshold",
        "fieldsType",
        "generateName",
        "generation",
        "group",
        "host",
        "hostIP",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "hostPort",
        "hostname",
        "imagePullPolicy",
        "initialDelaySeconds",
        "iscsiInterface",
        "keyPath",
        "keyType",
        "keyring",
        "level",
        "manager",
        "medium",
        "nodeName",
        "operation",
        "partition",
        "periodSeconds",
        "pool",
        "prefix",
        "priorityClassName",
        "protectionDomain",
        "protocol",
        "pullPolicy",
        "reference",
        "request",
        "resourceVersion",
        "revision",
        "role",
        "schedulerName",
        "scheme",
        "secretFile",
        "selfLink",
        "serviceAccount",
        "serviceAccountName",
        "sslEnabled",
        "stdin",
        "stdinOnce",
        "storageMode",
        "storagePolicyID",
        "storagePolicyName",
        "storagePool",
        "subPath",
        "subPathExpr",
        "subdomain",
        "subresource",
        "successThreshold",
        "targetContainerName",
        "tenant",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "timeoutSeconds",
        "tty",
        "user",
        "volumeNamespace",
        "workingDir",
    ]
)
# By the field that holds the object.
_PLAIN_IN = {
    "cephfs": {"path"},
    "configMap": {"name"},
    "configMapKeyRef": {"name"},
    "configMapRef": {"name"},
    "containers": {"image"},
    "env": {"value"},
    "ephemeralContainers": {"image"},
    "exitCodes": {"operator"},
    "fieldRef": {"apiVersion"},
    "httpGet": {"path"},
    "imagePullSecrets": {"name"},
    "initContainers": {"image"},
    "metadata": {"name", "namespace", "uid"},
    "nodePublishSecretRef": {"name"},
    "options": {"name"},
    "podCertificate": {"signerName"},
    "ports": {"name"},
    "restartPolicyRules": {"action"},
    "scaleIO": {"volumeName"},
    "seLinuxOptions": {"type"},
    "secret": {"name", "secretName"},
    "secretKeyRef": {"name"},
    "secretRef": {"name"},
    "spec": {"restartPolicy", "volumeName"},
    "storageos": {"volumeName"},
    "tolerations": {"key", "operator", "value"},
}
# Plain in every object but two.
_READ_ONLY = frozenset({"readOnly", "fsType"})
_POINTERS_IN = frozenset({"azureDisk", "csi"})
# Keys of these are the user's own, so nothing within is ours to drop.
_MAPS = frozenset(
    {
        "labels",
        "annotations",
        "nodeSelector",
        "matchLabels",
        "limits",
        "requests",
        "overhead",
        "volumeAttributes",
        "userAnnotations",
        "options",
    }
)
# Written as empty lists where they are empty.
_KEPT_LISTS = frozenset({"containers", "monitors", "nodeSelectorTerms", "sources"})


def without_zero_values(document: Document, held_by: str = "") -> Document:
    """The same document as Kubernetes would write it back; `held_by` is the field that holds it."""
    plain: AbstractSet[str] = _PLAIN_IN.get(held_by, frozenset())
    result: Document = {}
    for name, value in document.items():
        if value is None or _says_nothing(name, value, held_by, plain):
            continue
        is_opaque = name == "managedFields" or (name in _MAPS and isinstance(value, dict))
        result[name] = value if is_opaque else _cleaned(value, name)
    return result


def _says_nothing(name: str, value: Any, held_by: str, plain: AbstractSet[str]) -> bool:
    if value or isinstance(value, dict):
        return not value and name in _MAPS
    if isinstance(value, list):
        return name not in _KEPT_LISTS
    if name in _READ_ONLY:
        return held_by not in _POINTERS_IN
    return name in _PLAIN or name in plain


def _cleaned(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return without_zero_values(value, name)
    if isinstance(value, list):
        return [_cleaned(item, name) for item in value]
    return value
