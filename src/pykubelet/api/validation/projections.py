"""Complaints about projected volumes and the files of downward volumes.

Upstream: validateProjectionSources and validateDownwardAPIVolumeFile in pkg/apis/core/validation/validation.go
"""

from collections.abc import Callable

from pykubelet.api.names import dns1123_subdomain_errors
from pykubelet.api.validation.field_errors import (
    FieldError,
    each_invalid,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pykubelet.api.validation.go_values import trust_bundle_value
from pykubelet.api.validation.metadata import label_selector_errors
from pykubelet.api.validation.paths import mode_errors, non_reserved_path_errors
from pykubelet.api.validation.references import VOLUME_FIELDS, field_ref_errors, resource_ref_errors
from pykubelet.api.validation.signer_names import is_kubernetes_signer, signer_name_errors
from pykubelet.api.wire import Document

# A source, its own path, the volume's path, and the paths that files of earlier sources took.
ProjectionRule = Callable[[Document, str, str, set[str]], list[FieldError]]

_MIN_TOKEN_SECONDS = 10 * 60
_MAX_TOKEN_SECONDS = 2**32
_KEY_TYPES = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_MIN_CERTIFICATE_SECONDS = 3600
_MAX_CERTIFICATE_SECONDS = 91 * 24 * 60 * 60
_MAX_KUBERNETES_CERTIFICATE_SECONDS = 24 * 60 * 60


def projected_errors(source: Document, path: str) -> list[FieldError]:
    """What is wrong with a projected volume."""
    errors = mode_errors(source.get("defaultMode"), f"{path}.defaultMode")
    taken: set[str] = set()
    for index, projection in enumerate(source.get("sources", ())):
        at = f"{path}.sources[{index}]"
        kinds = [kind for kind in _RULES if kind in projection]
        for kind in kinds:
            errors += _RULES[kind](projection[kind], f"{at}.{kind}", path, taken)
        if len(kinds) > 1:
            errors.append(forbidden(at, "may not specify more than 1 volume type per source"))
    return errors


def key_to_path_errors(item: Document, path: str) -> list[FieldError]:
    """What is wrong with a key and the file it goes to."""
    errors = [required(f"{path}.{name}") for name in ("key", "path") if not item.get(name)]
    errors += non_reserved_path_errors(item.get("path", ""), f"{path}.path")
    return errors + mode_errors(item.get("mode"), f"{path}.mode")


def downward_file_errors(item: Document, path: str) -> list[FieldError]:
    """What is wrong with a file that shows a field of the pod."""
    errors = [] if item.get("path") else [required(f"{path}.path")]
    errors += non_reserved_path_errors(item.get("path", ""), f"{path}.path")
    if "fieldRef" in item:
        errors += field_ref_errors(item["fieldRef"], VOLUME_FIELDS, f"{path}.fieldRef")
        if "resourceFieldRef" in item:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(invalid(path, "resource", detail))
    elif "resourceFieldRef" in item:
        errors += resource_ref_errors(item["resourceFieldRef"], f"{path}.resourceFieldRef", in_volume=True)
    else:
        errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    return errors + mode_errors(item.get("mode"), f"{path}.mode")


def _keyed_errors(source: Document, path: str, volume_path: str, taken: set[str]) -> list[FieldError]:
    name = source.get("name", "")
    errors = [] if name else [required(f"{path}.name")]
    for index, item in enumerate(source.get("items", ())):
        errors += key_to_path_errors(item, f"{path}.items[{index}]")
        if item.get("path"):
            errors += _take(item["path"], volume_path, taken, shown=name)
    return errors


def _downward_errors(source: Document, path: str, volume_path: str, taken: set[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    for item in source.get("items", ()):
        errors += downward_file_errors(item, path)
        if item.get("path"):
            errors += _take(item["path"], volume_path, taken, shown=item["path"])
    return errors


def _token_errors(source: Document, path: str, volume_path: str, _taken: set[str]) -> list[FieldError]:
    seconds, file = source.get("expirationSeconds", 0), source.get("path", "")
    errors: list[FieldError] = []
    at = f"{path}.expirationSeconds"
    if seconds < _MIN_TOKEN_SECONDS:
        errors.append(invalid(at, seconds, "may not specify a duration less than 10 minutes"))
    if seconds > _MAX_TOKEN_SECONDS:
        errors.append(invalid(at, seconds, "may not specify a duration larger than 2^32 seconds"))
    if not file:
        return [*errors, required(f"{volume_path}.path")]
    return errors + non_reserved_path_errors(file, f"{volume_path}.path")


def _trust_bundle_errors(source: Document, path: str, volume_path: str, taken: set[str]) -> list[FieldError]:
    file = source.get("path", "")
    errors = _trust_bundle_choice_errors(source, path)
    if not file:
        errors.append(required(f"{path}.path"))
    errors += non_reserved_path_errors(file, f"{path}.path")
    return errors + _take(file, volume_path, taken, shown=file)


def _trust_bundle_choice_errors(source: Document, path: str) -> list[FieldError]:
    name, signer = source.get("name"), source.get("signerName")
    if name is not None and signer is not None:
        return [invalid(path, trust_bundle_value(source), "only one of name and signerName may be used")]
    if name is not None:
        errors = [] if name else [required(f"{path}.name", "must be a valid object name")]
        details = [f"not a valid clustertrustbundlename: {error}" for error in _trust_bundle_name_errors(name)]
        errors += each_invalid(f"{path}.name", name, details)
        if "labelSelector" in source:
            detail = "labelSelector must be unset if name is specified"
            errors.append(invalid(f"{path}.labelSelector", source["labelSelector"], detail))
        return errors
    if signer is not None:
        errors = [] if signer else [required(f"{path}.signerName", "must be a valid signer name")]
        errors += signer_name_errors(signer, f"{path}.signerName")
        return errors + label_selector_errors(source.get("labelSelector"), f"{path}.labelSelector")
    return [required(path, "either name or signerName must be specified")]


def _trust_bundle_name_errors(name: str) -> list[str]:
    prefix, colon, own_name = name.rpartition(":")
    if colon and not prefix:
        return ['ClusterTrustBundle without signer name must not have ":" in its name']
    if "/" in prefix:
        # Colons stand for the slashes of the signer's name, so a slash can never be part of the prefix.
        signer, right = prefix.replace(":", "/"), prefix.replace("/", ":")
        return [f"ClusterTrustBundle for signerName {signer} must be named with prefix {right}:"]
    return dns1123_subdomain_errors(own_name)


def _certificate_errors(source: Document, path: str, volume_path: str, taken: set[str]) -> list[FieldError]:
    signer, key_type = source.get("signerName", ""), source.get("keyType", "")
    errors = signer_name_errors(signer, f"{path}.signerName")
    if key_type not in _KEY_TYPES:
        errors.append(not_supported(f"{path}.keyType", key_type, _KEY_TYPES))
    errors += _certificate_age_errors(source.get("maxExpirationSeconds"), signer, f"{path}.maxExpirationSeconds")
    files = [name for name in ("credentialBundlePath", "keyPath", "certificateChainPath") if source.get(name)]
    for name in files:
        errors += non_reserved_path_errors(source[name], f"{path}.{name}")
        errors += _take(source[name], volume_path, taken, shown=source[name])
    if files:
        return errors
    return [*errors, required(path, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath")]


def _certificate_age_errors(seconds: int | None, signer: str, path: str) -> list[FieldError]:
    if seconds is None:
        return []
    limit = _MAX_KUBERNETES_CERTIFICATE_SECONDS if is_kubernetes_signer(signer) else _MAX_CERTIFICATE_SECONDS
    if seconds < _MIN_CERTIFICATE_SECONDS:
        return [invalid(path, seconds, f"if provided, maxExpirationSeconds must be >= {_MIN_CERTIFICATE_SECONDS}")]
    return [invalid(path, seconds, f"if provided, maxExpirationSeconds must be <= {limit}")] if seconds > limit else []


def _take(file: str, path: str, taken: set[str], *, shown: str) -> list[FieldError]:
    if file in taken:
        return [invalid(path, shown, "conflicting duplicate paths")]
    taken.add(file)
    return []


_RULES: dict[str, ProjectionRule] = {
    "secret": _keyed_errors,
    "configMap": _keyed_errors,
    "downwardAPI": _downward_errors,
    "serviceAccountToken": _token_errors,
    "clusterTrustBundle": _trust_bundle_errors,
    "podCertificate": _certificate_errors,
}
