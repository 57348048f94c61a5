"""Warnings about the containers of a pod: annotations instead of fields, amounts, environment, ports.

Upstream: pkg/api/pod/warnings.go
"""

from collections.abc import Mapping

from pykubelet.api.validation.container_walk import containers_with_paths
from pykubelet.api.validation.field_errors import go_quote
from pykubelet.api.validation.profiles import APPARMOR_CONTAINER_PREFIX, SECCOMP_CONTAINER_PREFIX, apparmor_field
from pykubelet.api.warnings.storage import fraction_warnings
from pykubelet.api.wire import Document

_BYTES = ("memory", "ephemeral-storage")
USE_SECCOMP_FIELD = 'non-functional in v1.27+; use the "seccompProfile" field instead'
USE_APPARMOR_FIELD = 'deprecated since v1.30; use the "appArmorProfile" field instead'


def container_warnings(spec: Document, annotations: Mapping[str, str], prefix: str) -> list[str]:
    """About all containers but for their ports; `prefix` leads to the pod, or to the template if there is one."""
    warnings: list[str] = []
    whole = spec.get("securityContext", {}).get("appArmorProfile")
    for container, path in containers_with_paths(spec, f"{prefix}spec"):
        if annotations:
            keys = _keys_instead_of_fields(container, annotations, whole, is_template=bool(prefix))
            warnings += [f"{prefix}metadata.annotations[{key}]: {said}" for key, said in keys.items()]
        if resources := container.get("resources"):
            for resource in _BYTES:
                for kind in ("limits", "requests"):
                    if resource in (amounts := resources.get(kind, ())):
                        warnings += fraction_warnings(amounts, resource, f"{path}.resources.{kind}")
        if len(env := container.get("env", ())) > 1:
            warnings += _env_warnings(env, f"{path}.env")
    return warnings


def port_warnings(spec: Document, path: str) -> list[str]:
    """About the ports of all containers together: first their numbers, then their names."""
    ports = [
        (port, f"{at}.ports[{index}]")
        for container, at in containers_with_paths(spec, path)
        if "ports" in container
        for index, port in enumerate(container["ports"])
    ]
    # Most pods have but one, which is in nobody's way.
    if len(ports) > 1 or (ports and "hostIP" in ports[0][0]):
        return [*_number_warnings(ports), *_name_warnings(ports)]
    return []


def _keys_instead_of_fields(
    container: Document, annotations: Mapping[str, str], whole: Document | None, *, is_template: bool
) -> dict[str, str]:
    context, name = container.get("securityContext", {}), container.get("name", "")
    found: dict[str, str] = {}
    if (key := f"{SECCOMP_CONTAINER_PREFIX}{name}") in annotations and "seccompProfile" not in context:
        found[key] = USE_SECCOMP_FIELD
    key = f"{APPARMOR_CONTAINER_PREFIX}{name}"
    # Those of a pod itself become fields as it is read, and are told of then.
    if is_template and key in annotations and "appArmorProfile" not in context:
        profile = apparmor_field(annotations[key])
        if profile is None or profile != whole:
            found[key] = USE_APPARMOR_FIELD
    return found


def _env_warnings(env: list[Document], path: str) -> list[str]:
    """About variables that are set again without making use of what they were."""
    warnings: list[str] = []
    names: set[str] = set()
    for index, variable in enumerate(env):
        name, value = variable.get("name", ""), variable.get("value", "")
        if name not in names:
            names.add(name)
            continue
        reference = f"$({name})"
        if "valueFrom" in variable or value == reference or reference not in value:
            warnings.append(
                f"{path}[{index}]: hides previous definition of {go_quote(name)}, which may be dropped when using apply"
            )
    return warnings


def _number_warnings(ports: list[tuple[Document, str]]) -> list[str]:
    warnings: list[str] = []
    seen: dict[tuple[int, str], list[tuple[Document, str]]] = {}
    for port, path in ports:
        if port.get("hostIP") and not port.get("hostPort"):
            warnings.append(f"{path}: hostIP set without hostPort: {_shown(port)}")
        others = seen.setdefault((port.get("containerPort", 0), port.get("protocol", "")), [])
        warnings += [f"{path}: {said} with {at}" for other, at in others if (said := _collision(port, other))]
        others.append((port, path))
    return warnings


def _collision(port: Document, other: Document) -> str:
    """What is wrong with two ports of one number and protocol; nothing if the host tells them apart."""
    (ip, host_port), (other_ip, other_host_port) = (
        (each.get("hostIP", ""), each.get("hostPort", 0)) for each in (port, other)
    )
    if (ip, host_port) == (other_ip, other_host_port):
        return "duplicate port definition"
    if not host_port or not other_host_port:
        return "overlapping port definition"
    if host_port == other_host_port and (not ip or not other_ip):
        return "dangerously ambiguous port definition"
    return ""


def _name_warnings(ports: list[tuple[Document, str]]) -> list[str]:
    warnings: list[str] = []
    first: dict[str, str] = {}
    for port, path in ports:
        if (name := port.get("name", "")) and (other := first.setdefault(name, path)) != path:
            warnings.append(
                f"{path}: duplicate port name {go_quote(name)} with {other}, services and probes that select ports by "
                f"name will use {other}"
            )
    return warnings


def _shown(port: Document) -> str:
    """A port as Go prints its value."""
    name, host_port, number = port.get("name", ""), port.get("hostPort", 0), port.get("containerPort", 0)
    protocol, ip = port.get("protocol", ""), port.get("hostIP", "")
    return f"{{Name:{name} HostPort:{host_port} ContainerPort:{number} Protocol:{protocol} HostIP:{ip}}}"
