"""ConfigMap: configuration that is not secret, at most 1 MiB.

Upstream: pkg/registry/core/configmap/strategy.go, pkg/apis/core/validation/validation.go
"""

from collections.abc import Iterable
from typing import Any

from pykubelet.api.field_errors import FieldError, each_invalid, forbidden, invalid, too_long
from pykubelet.api.names import byte_length, config_map_key_errors
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import at, created, name_of
from pykubelet.kinds.kind import Kind, Strategy, normalized
from pykubelet.kinds.metadata import metadata_errors, metadata_update_errors

MAX_DATA_BYTES = 1024 * 1024
_IMMUTABLE = "field is immutable when `immutable` is set"


def _validate(config_map: Document) -> list[FieldError]:
    errors = metadata_errors(config_map["metadata"])
    data, binary = config_map.get("data", {}), config_map.get("binaryData", {})
    for key in data:
        errors += each_invalid(f"data[{key}]", key, config_map_key_errors(key))
        if key in binary:
            errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    for key in binary:
        errors += each_invalid(f"binaryData[{key}]", key, config_map_key_errors(key))
    if sum(map(byte_length, data.values())) + decoded_bytes(binary.values()) > MAX_DATA_BYTES:
        # The error concerns the whole object; upstream prints the empty path as an empty index.
        errors.append(too_long("[]", MAX_DATA_BYTES))
    return errors


def decoded_bytes(texts: Iterable[str]) -> int:
    """The number of bytes that base64 texts encode."""
    return sum(len(text) // 4 * 3 - text[-2:].count("=") for text in texts)


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    return [
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *immutable_data_errors(new, old, ("data", "binaryData")),
        *_validate(new),
    ]


def immutable_data_errors(new: Document, old: Document, names: Iterable[str]) -> list[FieldError]:
    """Validates that the data of an object with `immutable` set does not change."""
    if not old.get("immutable"):
        return []
    errors = [] if new.get("immutable") else [forbidden("immutable", _IMMUTABLE)]
    return errors + [forbidden(name, _IMMUTABLE) for name in names if new.get(name) != old.get(name)]


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, data, age."""
    return [name_of(document), len(at(document, "data")) + len(at(document, "binaryData")), created(document, age)]


KIND = Kind(
    resource=Resource("", "v1", "configmaps", "ConfigMap"),
    definition="core.v1.ConfigMap",
    short_names=("cm",),
    strategy=Strategy(
        default=normalized("core.v1.ConfigMap"), validate_create=_validate, validate_update=_validate_update
    ),
    cells=_cells,
)
