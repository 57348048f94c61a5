"""Fields of a pod as text, for its own variables and files.

Upstream: pkg/fieldpath/fieldpath.go, podFieldSelectorRuntimeValue in pkg/kubelet/kubelet_pods.go,
pkg/apis/core/pods/helpers.go
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pykubelet.api.generated.core import ObjectFieldSelector, Pod
from pykubelet.api.names import qualified_name_errors
from pykubelet.api.validation.field_errors import go_quote

_SUBSCRIPTED = frozenset({"metadata.annotations", "metadata.labels"})
# What a selector may name; that is more than has a value.
_LABELS = _SUBSCRIPTED | {
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
}


class UnknownField(ValueError):
    """A pod has no such field, or not for this use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where a pod and its node can be reached, the preferred address first."""

    pod_ips: tuple[str, ...] = ()
    host_ips: tuple[str, ...] = ()


def field_value(selector: ObjectFieldSelector, pod: Pod, addresses: Addresses) -> str:
    """The value of a field for a variable; UnknownField if it has none."""
    match _converted(selector):
        case "spec.nodeName":
            return pod.spec.node_name
        case "spec.serviceAccountName":
            return pod.spec.service_account_name
        case "status.hostIP":
            return next(iter(addresses.host_ips), "")
        case "status.hostIPs":
            return ",".join(addresses.host_ips)
        case "status.podIP":
            return next(iter(addresses.pod_ips), "")
        case "status.podIPs":
            return ",".join(addresses.pod_ips)
        case path:
            return metadata_value(path, pod)


def metadata_value(path: str, pod: Pod) -> str:
    """The value of a metadata field, all that a file may show; UnknownField for any other."""
    metadata = pod.metadata
    field, key = _split(path)
    if key is not None:
        return _entry(path, field, key, pod)
    match path:
        case "metadata.annotations":
            return format_map(metadata.annotations)
        case "metadata.labels":
            return format_map(metadata.labels)
        case "metadata.name":
            return metadata.name
        case "metadata.namespace":
            return metadata.namespace
        case "metadata.uid":
            return metadata.uid
    raise UnknownField(f"unsupported fieldPath: {path}")


def format_map(entries: Mapping[str, str]) -> str:
    """Labels or annotations as a file shows them: `key="value"`, sorted, one a line."""
    return "\n".join(f"{key}={go_quote(entries[key])}" for key in sorted(entries))


def _entry(path: str, field: str, key: str, pod: Pod) -> str:
    match field:
        case "metadata.annotations":
            errors, entries = qualified_name_errors(key.lower()), pod.metadata.annotations
        case "metadata.labels":
            errors, entries = qualified_name_errors(key), pod.metadata.labels
        case _:
            raise UnknownField(f'fieldPath "{path}" does not support subscript')
    if errors:
        raise UnknownField(f"invalid key subscript in {path}: {';'.join(errors)}")
    return entries.get(key, "")


def _converted(selector: ObjectFieldSelector) -> str:
    """The path that a selector means."""
    if selector.api_version != "v1":
        raise UnknownField(f"unsupported pod version: {selector.api_version}")
    path = selector.field_path
    field, key = _split(path)
    if key is not None and field not in _SUBSCRIPTED:
        raise UnknownField(f"field label does not support subscript: {path}")
    # Clients older than v1 call the node so.
    converted = "spec.nodeName" if path == "spec.host" else path
    if key is None and converted not in _LABELS:
        raise UnknownField(f"field label not supported: {path}")
    return converted


def _split(path: str) -> tuple[str, str | None]:
    """`metadata.labels['a']` as field and key; a path without subscript has no key."""
    field, bracket, key = path.removesuffix("']").partition("['")
    return (field, key) if path.endswith("']") and field and bracket else (path, None)
