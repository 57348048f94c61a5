"""VolumeAttachment: the request to attach a volume to a node.

Upstream: pkg/registry/storage/volumeattachment/strategy.go, pkg/apis/storage/validation/validation.go
"""

from typing import Any

from pykubelet.api.field_errors import FieldError, each_invalid, forbidden, invalid, required, too_long
from pykubelet.api.names import byte_length, dns1123_subdomain_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import at, created, name_of
from pykubelet.kinds.kind import Kind, Strategy, normalized, restore_spec, restore_status
from pykubelet.kinds.metadata import IMMUTABLE, metadata_errors

_DEFINITION = "storage.v1.VolumeAttachment"
_MAX_METADATA_BYTES = 256 * 1024
_MAX_MESSAGE_BYTES = 1024
_ONE_SOURCE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


def _prepare_create(document: Document) -> Document:
    return {**document, "status": normal_form({}, "storage.v1.VolumeAttachmentStatus")}


def _errors(document: Document) -> list[FieldError]:
    spec, status = document["spec"], document["status"]
    errors = metadata_errors(document["metadata"], namespaced=False)
    errors += [] if spec["attacher"] else [required("spec.attacher")]
    errors += _source_errors(spec["source"], "spec.source")
    errors += each_invalid("spec.nodeName", spec["nodeName"], dns1123_subdomain_errors(spec["nodeName"]))
    metadata = status.get("attachmentMetadata", {})
    if sum(byte_length(key) + byte_length(value) for key, value in metadata.items()) > _MAX_METADATA_BYTES:
        errors.append(too_long("status.attachmentMetadata", _MAX_METADATA_BYTES))
    for name in ("attachError", "detachError"):
        errors += _volume_error_errors(status.get(name, {}), f"status.{name}")
    return errors


def _source_errors(source: Document, path: str) -> list[FieldError]:
    name = source.get("persistentVolumeName")
    if "inlineVolumeSpec" in source:
        return [] if name is None else [forbidden(path, _ONE_SOURCE)]
    if name is None:
        return [required(path, _ONE_SOURCE)]
    return [] if name else [required(f"{path}.persistentVolumeName", "must specify non empty persistentVolumeName")]


def _volume_error_errors(error: Document, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if byte_length(error.get("message", "")) > _MAX_MESSAGE_BYTES:
        # As upstream, which names another limit.
        errors.append(too_long(f"{path}.message", _MAX_METADATA_BYTES))
    if (code := error.get("errorCode", 0)) < 0:
        errors.append(invalid(f"{path}.errorCode", code, "must be between 0 and 2147483647, inclusive"))
    return errors


def _validate_create(document: Document) -> list[FieldError]:
    spec = document["spec"]
    errors = _errors(document) + each_invalid(
        "spec.attacher", spec["attacher"], dns1123_subdomain_errors(spec["attacher"])
    )
    if (name := spec["source"].get("persistentVolumeName")) is not None:
        errors += each_invalid("spec.source.persistentVolumeName", name, dns1123_subdomain_errors(name))
    return errors


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    errors = _errors(new) * 2
    return errors if new["spec"] == old["spec"] else [*errors, invalid("spec", new["spec"], IMMUTABLE)]


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, attacher, volume, node, attached, age."""
    spec = at(document, "spec")
    return [
        name_of(document),
        spec.get("attacher", ""),
        at(spec, "source").get("persistentVolumeName", ""),
        spec.get("nodeName", ""),
        at(document, "status").get("attached", False),
        created(document, age),
    ]


KIND = Kind(
    resource=Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False),
    definition=_DEFINITION,
    subresources=("status",),
    strategy=Strategy(
        default=normalized(_DEFINITION),
        prepare_create=_prepare_create,
        validate_create=_validate_create,
        prepare_update=restore_status,
        validate_update=_validate_update,
        prepare_status=restore_spec,
        validate_status=_validate_update,
        allows_unconditional_update=False,
    ),
    cells=_cells,
)
