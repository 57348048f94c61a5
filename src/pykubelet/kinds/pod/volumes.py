"""Validation of a pod's volumes, with projected and downward API volumes.

The result includes the valid volumes: mounts of an invalid volume are reported as unknown.

Upstream: pkg/apis/core/validation/validation.go
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from pykubelet.api.field_errors import (
    FieldError,
    duplicate,
    each_invalid,
    forbidden,
    go_quote,
    invalid,
    items_errors,
    not_supported,
    required,
    too_long,
)
from pykubelet.api.names import byte_length, dns1123_label_errors, dns1123_subdomain_errors
from pykubelet.api.quantity import parse_quantity
from pykubelet.api.serializer import Document
from pykubelet.kinds.go_values import internal_form
from pykubelet.kinds.metadata import is_kubernetes_signer, label_selector_errors, signer_name_errors
from pykubelet.kinds.persistent_volume_claim import claim_template_errors
from pykubelet.kinds.pod.features import PodValidationOptions
from pykubelet.kinds.pod.references import (
    VOLUME_FIELDS,
    backstep_errors,
    descending_path_errors,
    field_ref_errors,
    mode_errors,
    non_reserved_path_errors,
    resource_ref_errors,
)
from pykubelet.kinds.pod.volume_sources import SourceRule, requires, storage_system_rules
from pykubelet.kinds.rules import OneOf

# Arguments: a source, its path, the volume's path, and the file paths of earlier sources.
ProjectionRule = Callable[[Document, str, str, set[str]], list[FieldError]]
_MIN_TOKEN_SECONDS = 10 * 60
_MAX_TOKEN_SECONDS = 2**32
_KEY_TYPES = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_MIN_CERTIFICATE_SECONDS = 3600
_MAX_CERTIFICATE_SECONDS = 91 * 24 * 60 * 60
_MAX_KUBERNETES_CERTIFICATE_SECONDS = 24 * 60 * 60
PULL_POLICY = OneOf(("Always", "IfNotPresent", "Never"), required=True)
_HOST_PATH_TYPES = OneOf(
    ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
)
_MAX_ISCSI_NAME_BYTES = 64
# Upstream misspells these names: the first two in errors about a second source, the third in every error of that volume.
_SECOND_SOURCE_NAMES = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
_FAULT_NAMES = {"gcePersistentDisk": "persistentDisk"}


def volumes_errors(
    volumes: Sequence[Document], pod_name: str, path: str, options: PodValidationOptions
) -> tuple[Mapping[str, Document], list[FieldError]]:
    """Validates the volumes; also returns the valid ones by name."""
    errors: list[FieldError] = []
    good: dict[str, Document] = {}
    generated_claims = {
        f"{pod_name}-{volume.get('name', '')}" for volume in volumes if pod_name and "ephemeral" in volume
    }
    for index, volume in enumerate(volumes):
        at, name = f"{path}[{index}]", volume.get("name", "")
        found = _source_errors(volume, at, pod_name, options)
        found += each_invalid(f"{at}.name", name, dns1123_label_errors(name)) if name else [required(f"{at}.name")]
        if name in good:
            found.append(duplicate(f"{at}.name", name))
        if not found:
            good[name] = volume
        errors += found
        claim = volume.get("persistentVolumeClaim", {}).get("claimName", "")
        if "persistentVolumeClaim" in volume and claim in generated_claims:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(f"{at}.persistentVolumeClaim.claimName", claim, detail))
    return good, errors


def _source_errors(volume: Document, path: str, pod_name: str, options: PodValidationOptions) -> list[FieldError]:
    errors: list[FieldError] = []
    found = False
    for kind, rule in _source_rules(resource_is_pod=options.resource_is_pod).items():
        source = volume.get(kind)
        if source is None:
            continue
        if found:
            name = _SECOND_SOURCE_NAMES.get(kind, kind)
            errors.append(forbidden(f"{path}.{name}", "may not specify more than 1 volume type"))
        else:
            errors += rule(source, f"{path}.{_FAULT_NAMES.get(kind, kind)}")
            errors += _claim_name_errors(volume, pod_name, path) if kind == "ephemeral" else []
        found = True
        errors += _iscsi_name_errors(volume, path) if kind == "iscsi" else []
    return errors if found else [required(path, "must specify a volume type")]


@cache
def _source_rules(*, resource_is_pod: bool) -> Mapping[str, SourceRule]:
    """The rule of each source type, in the order in which upstream validates them."""
    return {
        "emptyDir": _empty_dir_errors,
        "hostPath": host_path_errors,
        "gitRepo": _git_repo_errors,
        **storage_system_rules("gcePersistentDisk", "awsElasticBlockStore"),
        "secret": partial(_keyed_errors, "secretName"),
        "nfs": nfs_errors,
        **storage_system_rules("iscsi", "glusterfs", "flocker"),
        "persistentVolumeClaim": requires("claimName"),
        **storage_system_rules("rbd", "cinder", "cephfs", "quobyte"),
        "downwardAPI": _downward_errors,
        **storage_system_rules("fc", "flexVolume"),
        "configMap": partial(_keyed_errors, "name"),
        **storage_system_rules("azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk"),
        **storage_system_rules("storageos"),
        "projected": projected_errors,
        **storage_system_rules("scaleIO"),
        "csi": _csi_errors,
        "ephemeral": _ephemeral_errors,
        "image": _pod_image_errors if resource_is_pod else _image_errors,
    }


def _empty_dir_errors(source: Document, path: str) -> list[FieldError]:
    if "sizeLimit" in source and parse_quantity(source["sizeLimit"]).sign() < 0:
        return [forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def host_path_errors(source: Document, path: str) -> list[FieldError]:
    if not source.get("path"):
        return [required(f"{path}.path")]
    errors = backstep_errors(source["path"], f"{path}.path")
    return errors + _HOST_PATH_TYPES.errors(source.get("type", ""), f"{path}.type")


def _git_repo_errors(source: Document, path: str) -> list[FieldError]:
    return requires("repository")(source, path) + descending_path_errors(
        source.get("directory", ""), f"{path}.directory"
    )


def _keyed_errors(name_field: str, source: Document, path: str) -> list[FieldError]:
    errors = requires(name_field)(source, path)
    errors += mode_errors(source.get("defaultMode"), f"{path}.defaultMode")
    return errors + items_errors(source.get("items", ()), key_to_path_errors, f"{path}.items")


def key_to_path_errors(item: Document, path: str) -> list[FieldError]:
    """Validates a key and the path of its file."""
    errors = requires("key", "path")(item, path)
    errors += non_reserved_path_errors(item.get("path", ""), f"{path}.path")
    return errors + mode_errors(item.get("mode"), f"{path}.mode")


def nfs_errors(source: Document, path: str) -> list[FieldError]:
    errors = requires("server", "path")(source, path)
    target = source.get("path", "")
    return errors if target.startswith("/") else [*errors, invalid(f"{path}.path", target, "must be an absolute path")]


def _downward_errors(source: Document, path: str) -> list[FieldError]:
    errors = mode_errors(source.get("defaultMode"), f"{path}.defaultMode")
    for item in source.get("items", ()):
        errors += downward_file_errors(item, path)
    return errors


def downward_file_errors(item: Document, path: str) -> list[FieldError]:
    """Validates a file of a downward API volume."""
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


def projected_errors(source: Document, path: str) -> list[FieldError]:
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


def _projected_keys_errors(source: Document, path: str, volume_path: str, taken: set[str]) -> list[FieldError]:
    name = source.get("name", "")
    errors = [] if name else [required(f"{path}.name")]
    for index, item in enumerate(source.get("items", ())):
        errors += key_to_path_errors(item, f"{path}.items[{index}]")
        if item.get("path"):
            errors += _take_path(item["path"], volume_path, taken, shown=name)
    return errors


def _take_path(file: str, path: str, taken: set[str], *, shown: str) -> list[FieldError]:
    if file in taken:
        return [invalid(path, shown, "conflicting duplicate paths")]
    taken.add(file)
    return []


def _projected_downward_errors(source: Document, path: str, volume_path: str, taken: set[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    for item in source.get("items", ()):
        errors += downward_file_errors(item, path)
        if item.get("path"):
            errors += _take_path(item["path"], volume_path, taken, shown=item["path"])
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
    return errors + _take_path(file, volume_path, taken, shown=file)


def _trust_bundle_choice_errors(source: Document, path: str) -> list[FieldError]:
    name, signer = source.get("name"), source.get("signerName")
    if name is not None and signer is not None:
        shown = internal_form(source, "core.ClusterTrustBundleProjection")
        return [invalid(path, shown, "only one of name and signerName may be used")]
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
        # Colons replace the slashes of the signer's name, so the prefix has no slash.
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
        errors += _take_path(source[name], volume_path, taken, shown=source[name])
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


_RULES: dict[str, ProjectionRule] = {
    "secret": _projected_keys_errors,
    "configMap": _projected_keys_errors,
    "downwardAPI": _projected_downward_errors,
    "serviceAccountToken": _token_errors,
    "clusterTrustBundle": _trust_bundle_errors,
    "podCertificate": _certificate_errors,
}


def _csi_errors(source: Document, path: str) -> list[FieldError]:
    errors = csi_driver_errors(source.get("driver", ""), f"{path}.driver")
    if "nodePublishSecretRef" not in source:
        return errors
    secret = source["nodePublishSecretRef"].get("name", "")
    if not secret:
        return [*errors, required(f"{path}.nodePublishSecretRef.name")]
    return errors + each_invalid(f"{path}.name", secret, dns1123_subdomain_errors(secret))


def csi_driver_errors(driver: str, path: str) -> list[FieldError]:
    """Validates the name of a CSI driver."""
    errors = [] if driver else [required(path)]
    if byte_length(driver) > 63:
        errors.append(too_long(path, 63))
    return errors + each_invalid(path, driver, dns1123_subdomain_errors(driver.lower()))


def _ephemeral_errors(source: Document, path: str) -> list[FieldError]:
    template = source.get("volumeClaimTemplate")
    at = f"{path}.volumeClaimTemplate"
    return [required(at)] if template is None else claim_template_errors(template, at)


def _pod_image_errors(source: Document, path: str) -> list[FieldError]:
    return requires("reference")(source, path) + _image_errors(source, path)


def _image_errors(source: Document, path: str) -> list[FieldError]:
    return PULL_POLICY.errors(source.get("pullPolicy", ""), f"{path}.pullPolicy")


def _claim_name_errors(volume: Document, pod_name: str, path: str) -> list[FieldError]:
    name = volume.get("name", "")
    if not pod_name or not name:
        return []
    claim = f"{pod_name}-{name}"
    details = [f"PVC name {go_quote(claim)}: {error}" for error in dns1123_subdomain_errors(claim)]
    return each_invalid(f"{path}.name", name, details)


def _iscsi_name_errors(volume: Document, path: str) -> list[FieldError]:
    name, source = volume.get("name", ""), volume["iscsi"]
    if "initiatorName" not in source:
        return []
    if byte_length(f"{name}:{source.get('targetPortal', '')}") <= _MAX_ISCSI_NAME_BYTES:
        return []
    detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified."
    return [invalid(f"{path}.name", name, detail)]
