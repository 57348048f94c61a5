"""Validation of containers (regular, init, ephemeral): environment, mounts, devices, ports, hooks.

Upstream: pkg/apis/core/validation/validation.go
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pykubelet.api.field_errors import (
    FieldError,
    TypedString,
    duplicate,
    each_invalid,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from pykubelet.api.names import (
    dns1123_label_errors,
    dns1123_subdomain_errors,
    env_var_name_errors,
    port_name_errors,
    port_number_errors,
    relaxed_env_var_name_errors,
)
from pykubelet.api.serializer import Document
from pykubelet.kinds.go_values import internal_form
from pykubelet.kinds.metadata import NameRule, without_trailing_dash
from pykubelet.kinds.pod.features import PodValidationOptions
from pykubelet.kinds.pod.probes import container_probes_errors, lifecycle_errors
from pykubelet.kinds.pod.references import (
    ENV_FIELDS,
    backstep_errors,
    descending_path_errors,
    field_ref_errors,
    file_key_ref_errors,
    key_ref_errors,
    resource_ref_errors,
)
from pykubelet.kinds.pod.security import container_security_errors
from pykubelet.kinds.pod.volumes import PULL_POLICY
from pykubelet.kinds.resources import container_resources_errors
from pykubelet.kinds.rules import OneOf

_SOURCES: Mapping[str, Callable[[Document, str], list[FieldError]]] = {
    "fieldRef": lambda reference, path: field_ref_errors(reference, ENV_FIELDS, path),
    "resourceFieldRef": partial(resource_ref_errors, in_volume=False),
    "configMapKeyRef": key_ref_errors,
    "secretKeyRef": key_ref_errors,
    "fileKeyRef": file_key_ref_errors,
}
_PROPAGATIONS = OneOf(("Bidirectional", "HostToContainer", "None"))
_RECURSIVE_READ_ONLY = ("Disabled", "Enabled", "IfPossible")
_MESSAGE_POLICIES = OneOf(("File", "FallbackToLogsOnError"), required=True)
_PROTOCOLS = OneOf(("SCTP", "TCP", "UDP"), required=True)
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
    """The parts of the pod that the rules of its containers depend on."""

    volumes: Mapping[str, Document]
    claim_names: frozenset[str]
    grace_seconds: int | None
    os: Document | None
    restart_policy: str
    host_users: bool
    options: PodValidationOptions


def regular_containers_errors(containers: Sequence[Document], pod: PodParts, path: str) -> list[FieldError]:
    """Validates the regular containers, of which one is required."""
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


def _common_errors(container: Document, pod: PodParts, path: str) -> list[FieldError]:
    name = container.get("name", "")
    env_name_rule = relaxed_env_var_name_errors if pod.options.relaxed_env_names else env_var_name_errors
    errors = each_invalid(f"{path}.name", name, dns1123_label_errors(name)) if name else [required(f"{path}.name")]
    if not container.get("image"):
        errors.append(required(f"{path}.image"))
    policy = container.get("terminationMessagePolicy", "")
    errors += _MESSAGE_POLICIES.errors(policy, f"{path}.terminationMessagePolicy")
    errors += _ports_errors(container.get("ports", ()), f"{path}.ports")
    errors += env_errors(container.get("env", ()), env_name_rule, f"{path}.env")
    errors += env_from_errors(container.get("envFrom", ()), env_name_rule, f"{path}.envFrom")
    errors += mounts_errors(container, pod.volumes, f"{path}.volumeMounts")
    errors += devices_errors(container, pod.volumes, f"{path}.volumeDevices")
    errors += PULL_POLICY.errors(container.get("imagePullPolicy", ""), f"{path}.imagePullPolicy")
    errors += container_resources_errors(container.get("resources", {}), pod.claim_names, f"{path}.resources")
    errors += _resize_errors(container.get("resizePolicy", ()), pod.restart_policy, f"{path}.resizePolicy")
    context = container.get("securityContext")
    return errors + container_security_errors(context, f"{path}.securityContext", host_users=pod.host_users)


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
        errors += _PROTOCOLS.errors(protocol, f"{at}.protocol")
    return errors


def _port_name_errors(name: str, names: set[str], path: str) -> list[FieldError]:
    """Validates one port name, and adds a valid one to `names`."""
    if not name:
        return []
    if found := port_name_errors(name):
        return each_invalid(path, name, found)
    if name in names:
        return [duplicate(path, name)]
    names.add(name)
    return []


def env_errors(variables: Sequence[Document], name_rule: NameRule, path: str) -> list[FieldError]:
    """Validates the environment variables."""
    errors: list[FieldError] = []
    for index, variable in enumerate(variables):
        name = variable.get("name", "")
        if not name:
            errors.append(required(f"{path}[{index}].name"))
        elif details := name_rule(name):
            errors += each_invalid(f"{path}[{index}].name", name, details)
        if "valueFrom" in variable:
            errors += _value_from_errors(variable, f"{path}[{index}].valueFrom")
    return errors


def _value_from_errors(variable: Document, path: str) -> list[FieldError]:
    source = variable["valueFrom"]
    errors: list[FieldError] = []
    kinds = [kind for kind in _SOURCES if kind in source]
    for kind in kinds:
        errors += _SOURCES[kind](source[kind], f"{path}.{kind}")
    if not kinds:
        detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        errors.append(invalid(path, "", detail))
    elif variable.get("value"):
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(kinds) > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def env_from_errors(sources: Sequence[Document], name_rule: NameRule, path: str) -> list[FieldError]:
    """Validates the ConfigMaps and Secrets whose keys all become variables."""
    errors: list[FieldError] = []
    for index, source in enumerate(sources):
        at = f"{path}[{index}]"
        if prefix := source.get("prefix", ""):
            errors += each_invalid(f"{at}.prefix", prefix, name_rule(prefix))
        kinds = [kind for kind in ("configMapRef", "secretRef") if kind in source]
        for kind in kinds:
            name = source[kind].get("name", "")
            where = f"{at}.{kind}.name"
            errors += each_invalid(where, name, _masked_name_errors(name)) if name else [required(where)]
        if not kinds:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(kinds) > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _masked_name_errors(name: str) -> list[str]:
    # Upstream validates these as prefixes, so a trailing dash is valid.
    return dns1123_subdomain_errors(without_trailing_dash(name))


def mounts_errors(container: Document, volumes: Mapping[str, Document], path: str) -> list[FieldError]:
    """Validates the mounts; `volumes` are the valid volumes."""
    errors: list[FieldError] = []
    devices = {device.get("name", ""): device.get("devicePath", "") for device in container.get("volumeDevices", ())}
    device_paths = set(devices.values())
    seen: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts", ())):
        at, name, target = f"{path}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(required(f"{at}.name"))
        if name not in volumes:
            errors.append(not_found(f"{at}.name", name))
        if not target:
            errors.append(required(f"{at}.mountPath"))
        if target in seen:
            errors.append(invalid(f"{at}.mountPath", target, "must be unique"))
        seen.add(target)
        if name in devices:
            errors.append(invalid(f"{at}.name", name, "must not already exist in volumeDevices"))
        if target in device_paths:
            errors.append(invalid(f"{at}.mountPath", target, "must not already exist as a path in volumeDevices"))
        errors += _sub_path_errors(mount, at, path)
        errors += _propagation_errors(mount, container, f"{path}.mountPropagation")
        errors += _recursive_read_only_errors(mount, f"{path}.recursiveReadOnly")
    return errors


def _sub_path_errors(mount: Document, path: str, list_path: str) -> list[FieldError]:
    sub_path, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    errors = descending_path_errors(sub_path, f"{list_path}.subPath")
    if expression and sub_path:
        errors.append(invalid(f"{path}.subPathExpr", expression, "subPathExpr and subPath are mutually exclusive"))
    return errors + descending_path_errors(expression, f"{list_path}.subPathExpr")


def _propagation_errors(mount: Document, container: Document, path: str) -> list[FieldError]:
    mode = mount.get("mountPropagation")
    if mode is None:
        return []
    errors = _PROPAGATIONS.errors(mode, path)
    if mode == "Bidirectional" and not container.get("securityContext", {}).get("privileged"):
        errors.append(forbidden(path, "Bidirectional mount propagation is available only to privileged containers"))
    return errors


def _recursive_read_only_errors(mount: Document, path: str) -> list[FieldError]:
    mode = mount.get("recursiveReadOnly")
    if mode in {None, "Disabled"}:
        return []
    if mode not in _RECURSIVE_READ_ONLY:
        return [not_supported(path, TypedString(mode), _RECURSIVE_READ_ONLY)]
    errors = [] if mount.get("readOnly") else [forbidden(path, "may only be specified when readOnly is true")]
    if mount.get("mountPropagation", "None") != "None":
        errors.append(forbidden(path, "may only be specified when mountPropagation is None or not specified"))
    return errors


def devices_errors(container: Document, volumes: Mapping[str, Document], path: str) -> list[FieldError]:
    """Validates the block devices; `volumes` are the valid volumes."""
    errors: list[FieldError] = []
    mounts = {mount.get("name", ""): mount.get("mountPath", "") for mount in container.get("volumeMounts", ())}
    mount_paths = set(mounts.values())
    names: set[str] = set()
    targets: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices", ())):
        at, name, target = f"{path}[{index}]", device.get("name", ""), device.get("devicePath", "")
        errors += _device_name_errors(name, names, volumes, f"{at}.name")
        errors += _device_path_errors(target, targets, f"{at}.devicePath")
        if name in mounts:
            errors.append(invalid(f"{at}.name", name, "must not already exist in volumeMounts"))
        if target in mount_paths:
            errors.append(invalid(f"{at}.devicePath", target, "must not already exist as a path in volumeMounts"))
        if name:
            names.add(name)
    return errors


def _device_name_errors(name: str, names: set[str], volumes: Mapping[str, Document], path: str) -> list[FieldError]:
    errors = [] if name else [required(path)]
    if name in names:
        errors.append(invalid(path, name, "must be unique"))
    if name not in volumes:
        return [*errors, not_found(path, name)]
    if not {"persistentVolumeClaim", "ephemeral"} & set(volumes[name]):
        detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
        errors.append(invalid(path, name, detail))
    return errors


def _device_path_errors(target: str, targets: set[str], path: str) -> list[FieldError]:
    """Validates one path, and adds a valid one to `targets`."""
    errors = [] if target else [required(path)]
    if target in targets:
        errors.append(invalid(path, target, "must be unique"))
    if backstep_errors(target, path):
        errors.append(invalid(path, target, "can not contain backsteps ('..')"))
    else:
        targets.add(target)
    return errors


def _resize_errors(policies: Sequence[Document], restart_policy: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        resource, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if resource in seen:
            errors.append(duplicate(f"{path}[{index}]", TypedString(resource)))
        seen.add(resource)
        for value, supported in ((resource, _RESIZE_RESOURCES), (restart, _RESIZE_POLICIES)):
            if not value:
                errors.append(required(path))
            elif value not in supported:
                errors.append(not_supported(path, TypedString(value), supported))
        if restart_policy == "Never" and restart != "NotRequired":
            errors.append(invalid(path, TypedString(restart), "must be 'NotRequired' when `restartPolicy` is 'Never'"))
    return errors


def _running_errors(container: Document, pod: PodParts, path: str) -> list[FieldError]:
    """Validates the hooks and probes of a container that runs as long as its pod."""
    zero_sleep, errors = pod.options.zero_sleep, list[FieldError]()
    if "lifecycle" in container:
        at = f"{path}.lifecycle"
        errors += lifecycle_errors(container["lifecycle"], pod.grace_seconds, pod.os, at, zero_sleep=zero_sleep)
    return errors + container_probes_errors(container, pod.grace_seconds, path, zero_sleep=zero_sleep)


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


def init_containers_errors(
    containers: Sequence[Document], regular: Sequence[Document], pod: PodParts, path: str
) -> list[FieldError]:
    """Validates the init containers; only sidecars may have probes."""
    errors: list[FieldError] = []
    names = {container.get("name", "") for container in regular}
    for index, container in enumerate(containers):
        at, name, policy = f"{path}[{index}]", container.get("name", ""), container.get("restartPolicy")
        errors += _common_errors(container, pod, at)
        if policy not in {None, "Always"}:
            errors.append(not_supported(f"{at}.restartPolicy", TypedString(policy), ("Always",)))
        if name in names:
            errors.append(duplicate(f"{at}.name", name))
        elif name:
            names.add(name)
        # Upstream validates one container at a time here, so its index is always 0.
        errors += _host_ports_errors([container], path)
        if policy == "Always":
            errors += _running_errors(container, pod, at)
        else:
            detail = "may not be set for init containers without restartPolicy=Always"
            errors += [forbidden(f"{at}.{field}", detail) for field in _PROBES_AND_HOOKS if field in container]
        if not pod.options.sidecar_resize_policy and container.get("resizePolicy"):
            shown = [internal_form(each, "core.ContainerResizePolicy") for each in container["resizePolicy"]]
            errors.append(invalid(f"{at}.resizePolicy", shown, "must not be set for init containers"))
    return errors


def ephemeral_containers_errors(
    containers: Sequence[Document], others: Sequence[Document], pod: PodParts, path: str
) -> list[FieldError]:
    """Validates the ephemeral containers; `others` are the regular and init ones."""
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
    """Validates that no white space surrounds the image, which only templates may have."""
    image = container.get("image", "")
    if image == image.strip():
        return []
    return [invalid(f"{path}.image", image, "must not have leading or trailing whitespace")]
