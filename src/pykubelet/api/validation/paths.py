"""Complaints about paths inside volumes, and about the modes of files.

Upstream: validateLocalDescendingPath, validatePathNoBacksteps and ValidateLocalNonReservedPath in
pkg/apis/core/validation/validation.go
"""

from pykubelet.api.validation.field_errors import FieldError, invalid

_MAX_MODE = 0o777


def descending_path_errors(target: str, path: str) -> list[FieldError]:
    """Whether the target is absolute or climbs out of its folder."""
    errors = [invalid(path, target, "must be a relative path")] if target.startswith("/") else []
    return errors + backstep_errors(target, path)


def backstep_errors(target: str, path: str) -> list[FieldError]:
    """Whether some part of the target is `..`; one complaint is enough."""
    return [invalid(path, target, "must not contain '..'")] if ".." in target.split("/") else []


def non_reserved_path_errors(target: str, path: str) -> list[FieldError]:
    """As for a descending path; names that start with two dots belong to the kubelet's own volume writer."""
    errors = descending_path_errors(target, path)
    if target.startswith("..") and not target.startswith("../"):
        errors.append(invalid(path, target, "must not start with '..'"))
    return errors


def mode_errors(mode: int | None, path: str) -> list[FieldError]:
    """Whether the mode of a file has bits beyond read, write and execute."""
    if mode is None or 0 <= mode <= _MAX_MODE:
        return []
    return [invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive")]
