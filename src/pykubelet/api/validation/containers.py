"""Complaints about containers: regular, init and ephemeral ones.

In: containers, and the parts of the pod they depend on. Out: complaints in the API server's order.

Upstream: validateContainers, validateInitContainers, validateEphemeralContainers and validateContainerCommon in
pkg/apis/core/validation/validation.go
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from pykubelet.api.names import dns1123_label_errors, port_name_errors, port_number_errors
from pykubelet.api.validation.environment import env_errors, env_from_errors
from pykubelet.api.validation.field_errors import (
    FieldError,
    Named,
    duplicate,
    each_invalid,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from pykubelet.api.validation.go_values import resize_policies_value
from pykubelet.api.validation.mounts import devices_errors, mounts_errors
from pykubelet.api.validation.options import PodValidationOptions
from pykubelet.api.validation.probes import container_probes_errors, lifecycle_errors
from pykubelet.api.validation.resources import container_resources_errors
from pykubelet.api.validation.security import container_security_errors
from pykubelet.api.validation.volumes import pull_policy_errors
from pykubelet.api.wire import Document

_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_RESIZE_RESOURCES = ("cpu", "memory")
_RESIZE_POLICIES = ("NotRequired", "RestartContainer")
_PROBES_AND_HOOKS = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_NOT_EPHEMERAL = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)


@dataclass(frozen=True, slots=True)
class PodParts:
    """What the rules of a container need to know of its pod."""

    volumes: Mapping[str, Document]
    claim_names: AbstractSet[str]
    grace_seconds: int | None
    os: Document | None
    restart_policy: str
    host_users: bool
    options: PodValidationOptions


def regular_containers_errors(containers: Sequence[Document], pod: PodParts, path: str) -> list[FieldError]:
    """What is wrong with the regular containers, of which there must be one."""
    if not containers:
        return [required(path)]
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, container in enumerate(containers):
        at, name = f"{path}[{index}]", container.get("name", "")
        errors += _common_errors(container, pod, at)
        if name in names:
            errors.append(duplicate(f"{at}.name", name))
        names.add(name)
        errors += _running_errors(container, pod, at)
        if "restartPolicy" in container:
            errors.append(forbidden(f"{at}.restartPolicy", "may not be set for non-init containers"))
    return errors + _host_ports_errors(containers, path)


def init_containers_errors(
    containers: Sequence[Document], regular: Sequence[Document], pod: PodParts, path: str
) -> list[FieldError]:
    """What is wrong with the init containers; only sidecars among them may be probed."""
    errors: list[FieldError] = []
    names = {container.get("name", "") for container in regular}
    for index, container in enumerate(containers):
        at, name, policy = f"{path}[{index}]", container.get("name", ""), container.get("restartPolicy")
        errors += _common_errors(container, pod, at)
        if policy not in {None, "Always"}:
            errors.append(not_supported(f"{at}.restartPolicy", Named(policy), ("Always",)))
        if name in names:
            errors.append(duplicate(f"{at}.name", name))
        elif name:
            names.add(name)
        # Upstream looks at one container at a time here and calls it the first.
        errors += _host_ports_errors([container], path)
        if policy == "Always":
            errors += _running_errors(container, pod, at)
        else:
            detail = "may not be set for init containers without restartPolicy=Always"
            errors += [forbidden(f"{at}.{field}", detail) for field in _PROBES_AND_HOOKS if field in container]
        if not pod.options.sidecar_resize_policy and container.get("resizePolicy"):
            shown = resize_policies_value(container["resizePolicy"])
            errors.append(invalid(f"{at}.resizePolicy", shown, "must not be set for init containers"))
    return errors


def ephemeral_containers_errors(
    containers: Sequence[Document], others: Sequence[Document], pod: PodParts, path: str
) -> list[FieldError]:
    """What is wrong with the ephemeral containers; `others` are the regular and init ones."""
    errors: list[FieldError] = []
    other_names = {container.get("name", "") for container in others}
    names = set(other_names)
    for index, container in enumerate(containers):
        at, name = f"{path}[{index}]", container.get("name", "")
        errors += _common_errors(container, pod, at)
        errors += image_space_errors(container, at)
        if name in names:
            errors.append(duplicate(f"{at}.name", name))
        names.add(name)
        target = container.get("targetContainerName", "")
        if target and target not in other_names:
            errors.append(not_found(f"{at}.targetContainerName", target))
        detail = "cannot be set for an Ephemeral Container"
        errors += [forbidden(f"{at}.{field}", detail) for field in _NOT_EPHEMERAL if container.get(field)]
        for number, mount in enumerate(container.get("volumeMounts", ())):
            where = f"{at}.volumeMounts[{number}]"
            errors += [
                forbidden(f"{where}.{field}", detail) for field in ("subPath", "subPathExpr") if mount.get(field)
            ]
    return errors


def image_space_errors(container: Document, path: str) -> list[FieldError]:
    """Whether white space surrounds the image; templates may have it, pods may not."""
    image = container.get("image", "")
    if image == image.strip():
        return []
    return [invalid(f"{path}.image", image, "must not have leading or trailing whitespace")]


def _common_errors(container: Document, pod: PodParts, path: str) -> list[FieldError]:
    name, relaxed = container.get("name", ""), pod.options.relaxed_env_names
    errors = each_invalid(f"{path}.name", name, dns1123_label_errors(name)) if name else [required(f"{path}.name")]
    if not container.get("image"):
        errors.append(required(f"{path}.image"))
    policy = container.get("terminationMessagePolicy", "")
    if not policy:
        errors.append(required(f"{path}.terminationMessagePolicy"))
    elif policy not in _MESSAGE_POLICIES:
        errors.append(not_supported(f"{path}.terminationMessagePolicy", Named(policy), _MESSAGE_POLICIES))
    errors += _ports_errors(container.get("ports", ()), f"{path}.ports")
    errors += env_errors(container.get("env", ()), f"{path}.env", relaxed_names=relaxed)
    errors += env_from_errors(container.get("envFrom", ()), f"{path}.envFrom", relaxed_names=relaxed)
    errors += mounts_errors(container, pod.volumes, f"{path}.volumeMounts")
    errors += devices_errors(container, pod.volumes, f"{path}.volumeDevices")
    errors += pull_policy_errors(container.get("imagePullPolicy", ""), f"{path}.imagePullPolicy")
    errors += container_resources_errors(container.get("resources", {}), pod.claim_names, f"{path}.resources")
    errors += _resize_errors(container.get("resizePolicy", ()), pod.restart_policy, f"{path}.resizePolicy")
    context = container.get("securityContext")
    return errors + container_security_errors(context, f"{path}.securityContext", host_users=pod.host_users)


def _running_errors(container: Document, pod: PodParts, path: str) -> list[FieldError]:
    """What is wrong with the hooks and probes of a container that runs as long as its pod."""
    zero_sleep, errors = pod.options.zero_sleep, list[FieldError]()
    if "lifecycle" in container:
        at = f"{path}.lifecycle"
        errors += lifecycle_errors(container["lifecycle"], pod.grace_seconds, pod.os, at, zero_sleep=zero_sleep)
    return errors + container_probes_errors(container, pod.grace_seconds, path, zero_sleep=zero_sleep)


def _ports_errors(ports: Sequence[Document], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        at = f"{path}[{index}]"
        errors += _port_name_errors(port.get("name", ""), names, f"{at}.name")
        number, host_number, protocol = port.get("containerPort", 0), port.get("hostPort", 0), port.get("protocol", "")
        if not number:
            errors.append(required(f"{at}.containerPort"))
        else:
            errors += each_invalid(f"{at}.containerPort", number, port_number_errors(number))
        if host_number:
            errors += each_invalid(f"{at}.hostPort", host_number, port_number_errors(host_number))
        if not protocol:
            errors.append(required(f"{at}.protocol"))
        elif protocol not in _PROTOCOLS:
            errors.append(not_supported(f"{at}.protocol", Named(protocol), _PROTOCOLS))
    return errors


def _port_name_errors(name: str, names: set[str], path: str) -> list[FieldError]:
    """Complaints about one name; a good one goes into `names`."""
    if not name:
        return []
    if found := port_name_errors(name):
        return each_invalid(path, name, found)
    if name in names:
        return [duplicate(path, name)]
    names.add(name)
    return []


def _host_ports_errors(containers: Sequence[Document], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports", ())):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if key in taken:
                errors.append(duplicate(f"{path}[{index}].ports[{number}].hostPort", key))
            taken.add(key)
    return errors


def _resize_errors(policies: Sequence[Document], restart_policy: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        resource, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if resource in seen:
            errors.append(duplicate(f"{path}[{index}]", Named(resource)))
        seen.add(resource)
        for value, supported in ((resource, _RESIZE_RESOURCES), (restart, _RESIZE_POLICIES)):
            if not value:
                errors.append(required(path))
            elif value not in supported:
                errors.append(not_supported(path, Named(value), supported))
        if restart_policy == "Never" and restart != "NotRequired":
            detail = "must be 'NotRequired' when `restartPolicy` is 'Never'"
            errors.append(invalid(path, Named(restart), detail))
    return errors
