"""CSINode: the CSI drivers of a node.

Upstream: pkg/registry/storage/csinode/strategy.go, pkg/apis/storage/validation/validation.go
"""

from collections.abc import Sequence
from typing import Any

from pykubelet.api.field_errors import FieldError, duplicate, each_invalid, invalid, required
from pykubelet.api.names import byte_length, dns1123_subdomain_errors
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import at, created, name_of
from pykubelet.kinds.kind import Kind, Strategy, normalized
from pykubelet.kinds.metadata import immutable_errors, label_name_errors, metadata_errors, nonnegative_errors
from pykubelet.kinds.rules import repeated_indexes

_MAX_NODE_ID_BYTES = 256


def _validate_create(document: Document) -> list[FieldError]:
    errors = metadata_errors(document["metadata"], namespaced=False)
    drivers = document["spec"].get("drivers") or ()
    repeated = repeated_indexes(driver["name"] for driver in drivers)
    for index, driver in enumerate(drivers):
        errors += _driver_errors(driver, f"spec.drivers[{index}]", is_repeated=index in repeated)
    return errors


def _driver_errors(driver: Document, path: str, *, is_repeated: bool) -> list[FieldError]:
    name, node_id = driver["name"], driver["nodeID"]
    errors = each_invalid(f"{path}.name", name, dns1123_subdomain_errors(name))
    errors += [] if node_id else [required(f"{path}.nodeID")]
    if byte_length(node_id) > _MAX_NODE_ID_BYTES:
        errors.append(invalid(f"{path}.nodeID", node_id, f"must be {_MAX_NODE_ID_BYTES} characters or less"))
    errors += nonnegative_errors(driver.get("allocatable", {}).get("count", 0), f"{path}.allocatable.count")
    errors += [duplicate(f"{path}.name", name)] if is_repeated else []
    return errors + _topology_keys_errors(driver.get("topologyKeys") or (), path)


def _topology_keys_errors(keys: Sequence[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    repeated = repeated_indexes(keys)
    for index, key in enumerate(keys):
        # As upstream, the path is that of the driver.
        errors += [] if key else [required(path)]
        errors += [duplicate(path, key)] if index in repeated else []
        errors += label_name_errors(key, path)
    return errors


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    errors = _validate_create(new) * 2
    before = {driver["name"]: _fixed(driver) for driver in old["spec"].get("drivers") or ()}
    for driver in new["spec"].get("drivers") or ():
        if driver["name"] in before:
            errors += immutable_errors(_fixed(driver), before[driver["name"]], "spec.drivers")
    return errors


def _fixed(driver: Document) -> Document:
    """What may not change once a driver is registered."""
    return {"Name": driver["name"], "NodeID": driver["nodeID"], "TopologyKeys": driver.get("topologyKeys")} | (
        {"Allocatable": driver["allocatable"]} if "allocatable" in driver else {}
    )


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, number of drivers, age."""
    return [name_of(document), len(at(document, "spec").get("drivers") or ()), created(document, age)]


KIND = Kind(
    resource=Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False),
    definition="storage.v1.CSINode",
    strategy=Strategy(
        default=normalized("storage.v1.CSINode"),
        validate_create=_validate_create,
        validate_update=_validate_update,
        allows_unconditional_update=False,
    ),
    cells=_cells,
)
