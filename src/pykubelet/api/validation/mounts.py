"""Complaints about where a container mounts volumes and maps devices.

Upstream: ValidateVolumeMounts and ValidateVolumeDevices in pkg/apis/core/validation/validation.go
"""

from collections.abc import Mapping

from pykubelet.api.validation.field_errors import (
    FieldError,
    Named,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from pykubelet.api.validation.paths import backstep_errors, descending_path_errors
from pykubelet.api.wire import Document

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE_READ_ONLY = ("Disabled", "Enabled", "IfPossible")


def mounts_errors(container: Document, volumes: Mapping[str, Document], path: str) -> list[FieldError]:
    """What is wrong with the mounts; `volumes` are those without fault."""
    errors: list[FieldError] = []
    devices = {device.get("name", ""): device.get("devicePath", "") for device in container.get("volumeDevices", ())}
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
        if target in devices.values():
            errors.append(invalid(f"{at}.mountPath", target, "must not already exist as a path in volumeDevices"))
        errors += _sub_path_errors(mount, at, path)
        errors += _propagation_errors(mount, container, f"{path}.mountPropagation")
        errors += _recursive_read_only_errors(mount, f"{path}.recursiveReadOnly")
    return errors


def devices_errors(container: Document, volumes: Mapping[str, Document], path: str) -> list[FieldError]:
    """What is wrong with the devices; `volumes` are those without fault."""
    errors: list[FieldError] = []
    mounts = {mount.get("name", ""): mount.get("mountPath", "") for mount in container.get("volumeMounts", ())}
    names: set[str] = set()
    targets: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices", ())):
        at, name, target = f"{path}[{index}]", device.get("name", ""), device.get("devicePath", "")
        errors += _device_name_errors(name, names, volumes, f"{at}.name")
        errors += _device_path_errors(target, targets, f"{at}.devicePath")
        if name in mounts:
            errors.append(invalid(f"{at}.name", name, "must not already exist in volumeMounts"))
        if target in mounts.values():
            errors.append(invalid(f"{at}.devicePath", target, "must not already exist as a path in volumeMounts"))
        if name:
            names.add(name)
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
    errors = [] if mode in _PROPAGATIONS else [not_supported(path, Named(mode), _PROPAGATIONS)]
    if mode == "Bidirectional" and not container.get("securityContext", {}).get("privileged"):
        errors.append(forbidden(path, "Bidirectional mount propagation is available only to privileged containers"))
    return errors


def _recursive_read_only_errors(mount: Document, path: str) -> list[FieldError]:
    mode = mount.get("recursiveReadOnly")
    if mode in {None, "Disabled"}:
        return []
    if mode not in _RECURSIVE_READ_ONLY:
        return [not_supported(path, Named(mode), _RECURSIVE_READ_ONLY)]
    errors = [] if mount.get("readOnly") else [forbidden(path, "may only be specified when readOnly is true")]
    if mount.get("mountPropagation", "None") != "None":
        errors.append(forbidden(path, "may only be specified when mountPropagation is None or not specified"))
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
    """Complaints about one path; a good one goes into `targets`."""
    errors = [] if target else [required(path)]
    if target in targets:
        errors.append(invalid(path, target, "must be unique"))
    if backstep_errors(target, path):
        errors.append(invalid(path, target, "can not contain backsteps ('..')"))
    else:
        targets.add(target)
    return errors
