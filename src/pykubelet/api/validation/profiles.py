"""Complaints about seccomp and AppArmor profiles, in fields and in annotations.

Upstream: validateSeccompProfileField, ValidateAppArmorProfileField and their annotation twins in
pkg/apis/core/validation/validation.go, ApparmorFieldForAnnotation in pkg/api/pod/util.go
"""

from collections.abc import Mapping

from pykubelet.api.names import byte_length
from pykubelet.api.validation.container_walk import containers_with_paths
from pykubelet.api.validation.field_errors import (
    FieldError,
    Named,
    forbidden,
    go_quote,
    invalid,
    not_supported,
    required,
    too_long,
)
from pykubelet.api.validation.go_values import profile_value
from pykubelet.api.validation.paths import descending_path_errors
from pykubelet.api.wire import Document

SECCOMP_POD_ANNOTATION = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER_PREFIX = "container.seccomp.security.alpha.kubernetes.io/"
APPARMOR_CONTAINER_PREFIX = "container.apparmor.security.beta.kubernetes.io/"
_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")
_LOCALHOST = "localhost/"
_SECCOMP_WORDS = {"Unconfined": {"unconfined"}, "RuntimeDefault": {"runtime/default", "docker/default"}}
_APPARMOR_WORDS = {"Unconfined": {"unconfined"}, "RuntimeDefault": {"runtime/default"}}
_MAX_PROFILE_BYTES = 4095  # the longest path, without the zero at its end


def seccomp_errors(profile: Document | None, path: str) -> list[FieldError]:
    """What is wrong with a seccomp profile."""
    if profile is None:
        return []
    kind = profile.get("type", "")
    errors: list[FieldError] = []
    if not kind:
        errors.append(required(f"{path}.type", "type is required when seccompProfile is set"))
    elif kind not in _TYPES:
        errors.append(not_supported(f"{path}.type", Named(kind), _TYPES))
    name, at = profile.get("localhostProfile"), f"{path}.localhostProfile"
    if kind != "Localhost":
        if name is not None:
            detail = "can only be set when seccomp type is Localhost"
            errors.append(invalid(at, profile_value(profile), detail))
        return errors
    if name is None:
        return [*errors, required(at, "must be set when seccomp type is Localhost")]
    return errors + descending_path_errors(name, at)


def apparmor_errors(profile: Document | None, path: str) -> list[FieldError]:
    """What is wrong with an AppArmor profile."""
    if profile is None:
        return []
    kind, name, at = profile.get("type", ""), profile.get("localhostProfile"), f"{path}.localhostProfile"
    if not kind:
        return [required(f"{path}.type", "type is required when appArmorProfile is set")]
    if kind not in _TYPES:
        return [not_supported(f"{path}.type", Named(kind), _TYPES)]
    if kind != "Localhost":
        detail = "can only be set when AppArmor type is Localhost"
        return [] if name is None else [invalid(at, Named(name), detail)]
    return _apparmor_name_errors(name, at)


def profile_annotations_errors(annotations: Mapping[str, str], spec: Document, path: str) -> list[FieldError]:
    """What is wrong with profiles that stand in annotations, where they were before they had fields."""
    errors: list[FieldError] = []
    if SECCOMP_POD_ANNOTATION in annotations:
        value = annotations[SECCOMP_POD_ANNOTATION]
        errors += _seccomp_text_errors(value, f"{path}.{SECCOMP_POD_ANNOTATION}")
    for key, value in annotations.items():
        if key.startswith(SECCOMP_CONTAINER_PREFIX):
            errors += _seccomp_text_errors(value, f"{path}.{key}")
    for key, value in annotations.items():
        if not key.startswith(APPARMOR_CONTAINER_PREFIX):
            continue
        container = key.removeprefix(APPARMOR_CONTAINER_PREFIX)
        if all(container != each.get("name", "") for each, _ in containers_with_paths(spec, "spec")):
            errors.append(invalid(f"{path}[{key}]", container, "container not found"))
        if value not in {"", "runtime/default", "unconfined"} and not value.startswith(_LOCALHOST):
            errors.append(invalid(f"{path}[{key}]", value, f"invalid AppArmor profile name: {go_quote(value)}"))
    return errors


def apparmor_field(annotation: str) -> Document | None:
    """The field that says the same as the annotation of a container; None if that says nothing known."""
    name = annotation.removeprefix(_LOCALHOST)
    if name and name != annotation:
        return {"type": "Localhost", "localhostProfile": name}
    return next(({"type": kind} for kind, words in _APPARMOR_WORDS.items() if annotation in words), None)


def profile_match_errors(annotations: Mapping[str, str], spec: Document, path: str) -> list[FieldError]:
    """Where a profile stands in an annotation and in a field, and both differ."""
    if not any(".security." in key for key in annotations):
        return []
    context = spec.get("securityContext", {})
    errors: list[FieldError] = []
    if "seccompProfile" in context and SECCOMP_POD_ANNOTATION in annotations:
        at = f"{path}.securityContext.seccompProfile"
        errors += _seccomp_match_errors(annotations[SECCOMP_POD_ANNOTATION], context["seccompProfile"], at)
    for container, at in containers_with_paths(spec, path):
        own = container.get("securityContext", {}).get("seccompProfile")
        key = f"{SECCOMP_CONTAINER_PREFIX}{container.get('name', '')}"
        if own is not None and key in annotations:
            errors += _seccomp_match_errors(annotations[key], own, f"{at}.securityContext.seccompProfile")
    if spec.get("os", {}).get("name") == "windows":
        return errors
    for container, at in containers_with_paths(spec, path):
        own = container.get("securityContext", {}).get("appArmorProfile", context.get("appArmorProfile"))
        key = f"{APPARMOR_CONTAINER_PREFIX}{container.get('name', '')}"
        if own is not None and key in annotations:
            errors += _match_errors(annotations[key], own, f"{at}.securityContext.appArmorProfile", "apparmor")
    return errors


def _apparmor_name_errors(name: str | None, path: str) -> list[FieldError]:
    missing = required(path, "must be set when AppArmor type is Localhost")
    if name is None:
        return [missing]
    errors: list[FieldError] = []
    if name != name.strip():
        errors.append(invalid(path, name, "must not be padded with whitespace"))
    elif not name:
        errors.append(missing)
    return [*errors, too_long(path, _MAX_PROFILE_BYTES)] if byte_length(name) > _MAX_PROFILE_BYTES else errors


def _seccomp_text_errors(value: str, path: str) -> list[FieldError]:
    if value in {"runtime/default", "docker/default", "unconfined"}:
        return []
    if value.startswith(_LOCALHOST):
        return descending_path_errors(value.removeprefix(_LOCALHOST), path)
    return [invalid(path, value, "must be a valid seccomp profile")]


def _seccomp_match_errors(annotation: str, profile: Document, path: str) -> list[FieldError]:
    return _match_errors(annotation, profile, path, "seccomp")


def _match_errors(annotation: str, profile: Document, path: str, what: str) -> list[FieldError]:
    kind = profile.get("type", "")
    other_type = forbidden(f"{path}.type", f"{what} type in annotation and field must match")
    if kind == "Localhost":
        if not annotation.startswith(_LOCALHOST):
            return [other_type]
        same = annotation.removeprefix(_LOCALHOST) == profile.get("localhostProfile")
        detail = f"{what} profile in annotation and field must match"
        return [] if same else [forbidden(f"{path}.localhostProfile", detail)]
    words = (_SECCOMP_WORDS if what == "seccomp" else _APPARMOR_WORDS).get(kind)
    return [] if words is None or annotation in words else [other_type]
