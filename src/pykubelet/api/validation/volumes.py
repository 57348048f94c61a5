"""Complaints about a pod's volumes.

In: the volumes and the pod's name. Out: complaints, and the volumes that may be mounted: a volume with a fault counts
as absent for those who mount it.

Upstream: ValidateVolumes and validateVolumeSource in pkg/apis/core/validation/validation.go
"""

from collections.abc import Callable, Mapping, Sequence

from pykubelet.api.names import byte_length, dns1123_label_errors, dns1123_subdomain_errors
from pykubelet.api.quantity import parse_quantity
from pykubelet.api.validation.claim_templates import claim_template_errors
from pykubelet.api.validation.field_errors import (
    FieldError,
    Named,
    duplicate,
    each_invalid,
    forbidden,
    go_quote,
    invalid,
    not_supported,
    required,
    too_long,
)
from pykubelet.api.validation.options import PodValidationOptions
from pykubelet.api.validation.paths import backstep_errors, descending_path_errors, mode_errors
from pykubelet.api.validation.projections import downward_file_errors, key_to_path_errors, projected_errors
from pykubelet.api.validation.storage_systems import STORAGE_SYSTEM_RULES
from pykubelet.api.wire import Document

SourceRule = Callable[[Document, str], list[FieldError]]

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_MAX_ISCSI_NAME_BYTES = 64
# Upstream names these differently where there are two sources, and gcePersistentDisk also where it has a fault.
_SECOND_SOURCE_NAMES = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
_FAULT_NAMES = {"gcePersistentDisk": "persistentDisk"}


def volumes_errors(
    volumes: Sequence[Document], pod_name: str, path: str, options: PodValidationOptions
) -> tuple[Mapping[str, Document], list[FieldError]]:
    """The volumes without fault by name, and what is wrong with the others."""
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


def pull_policy_errors(policy: str, path: str) -> list[FieldError]:
    """Whether the policy says when to pull an image."""
    if not policy:
        return [required(path)]
    return [] if policy in PULL_POLICIES else [not_supported(path, Named(policy), PULL_POLICIES)]


def _source_errors(volume: Document, path: str, pod_name: str, options: PodValidationOptions) -> list[FieldError]:
    errors: list[FieldError] = []
    found = False
    for kind, rule in _source_rules(options).items():
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


def _source_rules(options: PodValidationOptions) -> Mapping[str, SourceRule]:
    """The rule of each kind of source, in the order in which upstream looks for them."""
    legacy = STORAGE_SYSTEM_RULES
    return {
        "emptyDir": _empty_dir_errors,
        "hostPath": host_path_errors,
        "gitRepo": _git_repo_errors,
        "gcePersistentDisk": legacy["gcePersistentDisk"],
        "awsElasticBlockStore": legacy["awsElasticBlockStore"],
        "secret": _secret_errors,
        "nfs": nfs_errors,
        "iscsi": legacy["iscsi"],
        "glusterfs": legacy["glusterfs"],
        "flocker": legacy["flocker"],
        "persistentVolumeClaim": _claim_errors,
        "rbd": legacy["rbd"],
        "cinder": legacy["cinder"],
        "cephfs": legacy["cephfs"],
        "quobyte": legacy["quobyte"],
        "downwardAPI": _downward_errors,
        "fc": legacy["fc"],
        "flexVolume": legacy["flexVolume"],
        "configMap": _config_map_errors,
        "azureFile": legacy["azureFile"],
        "vsphereVolume": legacy["vsphereVolume"],
        "photonPersistentDisk": legacy["photonPersistentDisk"],
        "portworxVolume": legacy["portworxVolume"],
        "azureDisk": legacy["azureDisk"],
        "storageos": legacy["storageos"],
        "projected": projected_errors,
        "scaleIO": legacy["scaleIO"],
        "csi": _csi_errors,
        "ephemeral": _ephemeral_errors,
        "image": _pod_image_errors if options.resource_is_pod else _image_errors,
    }


def _empty_dir_errors(source: Document, path: str) -> list[FieldError]:
    if "sizeLimit" in source and parse_quantity(source["sizeLimit"]).sign() < 0:
        return [forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def host_path_errors(source: Document, path: str) -> list[FieldError]:
    """What is wrong with a path of the node."""
    if not source.get("path"):
        return [required(f"{path}.path")]
    errors = backstep_errors(source["path"], f"{path}.path")
    kind = source.get("type", "")
    return (
        errors if kind in _HOST_PATH_TYPES else [*errors, not_supported(f"{path}.type", Named(kind), _HOST_PATH_TYPES)]
    )


def _git_repo_errors(source: Document, path: str) -> list[FieldError]:
    errors = [] if source.get("repository") else [required(f"{path}.repository")]
    return errors + descending_path_errors(source.get("directory", ""), f"{path}.directory")


def _secret_errors(source: Document, path: str) -> list[FieldError]:
    return _keyed_errors(source, "secretName", path)


def _config_map_errors(source: Document, path: str) -> list[FieldError]:
    return _keyed_errors(source, "name", path)


def _keyed_errors(source: Document, name_field: str, path: str) -> list[FieldError]:
    errors = [] if source.get(name_field) else [required(f"{path}.{name_field}")]
    errors += mode_errors(source.get("defaultMode"), f"{path}.defaultMode")
    for index, item in enumerate(source.get("items", ())):
        errors += key_to_path_errors(item, f"{path}.items[{index}]")
    return errors


def nfs_errors(source: Document, path: str) -> list[FieldError]:
    """What is wrong with a path of a file server."""
    errors = [required(f"{path}.{name}") for name in ("server", "path") if not source.get(name)]
    target = source.get("path", "")
    return errors if target.startswith("/") else [*errors, invalid(f"{path}.path", target, "must be an absolute path")]


def _claim_errors(source: Document, path: str) -> list[FieldError]:
    return [] if source.get("claimName") else [required(f"{path}.claimName")]


def _downward_errors(source: Document, path: str) -> list[FieldError]:
    errors = mode_errors(source.get("defaultMode"), f"{path}.defaultMode")
    for item in source.get("items", ()):
        errors += downward_file_errors(item, path)
    return errors


def csi_driver_errors(driver: str, path: str) -> list[FieldError]:
    """What is wrong with the name of a storage driver."""
    errors = [] if driver else [required(path)]
    if byte_length(driver) > 63:
        errors.append(too_long(path, 63))
    return errors + each_invalid(path, driver, dns1123_subdomain_errors(driver.lower()))


def _csi_errors(source: Document, path: str) -> list[FieldError]:
    errors = csi_driver_errors(source.get("driver", ""), f"{path}.driver")
    if "nodePublishSecretRef" not in source:
        return errors
    secret = source["nodePublishSecretRef"].get("name", "")
    if not secret:
        return [*errors, required(f"{path}.nodePublishSecretRef.name")]
    return errors + each_invalid(f"{path}.name", secret, dns1123_subdomain_errors(secret))


def _ephemeral_errors(source: Document, path: str) -> list[FieldError]:
    template = source.get("volumeClaimTemplate")
    at = f"{path}.volumeClaimTemplate"
    return [required(at)] if template is None else claim_template_errors(template, at)


def _image_errors(source: Document, path: str) -> list[FieldError]:
    return pull_policy_errors(source.get("pullPolicy", ""), f"{path}.pullPolicy")


def _pod_image_errors(source: Document, path: str) -> list[FieldError]:
    errors = [] if source.get("reference") else [required(f"{path}.reference")]
    return errors + _image_errors(source, path)


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
