"""ResourceSlice: the devices of a node or a network, as their driver publishes them.

Fields of gates that are off in 1.34 are dropped: counters, taints, nodes of single devices, shared capacities and binding
conditions.

Upstream: pkg/registry/resource/resourceslice/strategy.go, pkg/apis/resource/validation/validation.go
"""

import re
from collections.abc import Mapping
from typing import Any

from pykubelet.api.field_errors import FieldError, each_invalid, invalid, required, too_long, too_many
from pykubelet.api.names import byte_length, dns1123_label_errors, dns1123_subdomain_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import at, created, name_of
from pykubelet.kinds.device_class import driver_errors, limited_errors, unique_errors
from pykubelet.kinds.kind import Kind, Strategy, first_generation, metadata_fields, next_generation, without_fields
from pykubelet.kinds.metadata import immutable_errors, metadata_errors, metadata_update_errors
from pykubelet.kinds.pod.scheduling import node_selector_errors
from pykubelet.kinds.resource_claim import qualified_name_errors

_MAX_DEVICES = 128
_MAX_POOL_BYTES = 253
_MAX_ATTRIBUTES = 32
_MAX_VALUE_BYTES = 64
_VALUES = ("bool", "int", "string", "version")
_ONE_NODE = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_NUMBER, _BUILD = r"(?:0|[1-9]\d*)", r"[0-9a-zA-Z-]+"
_PRE_RELEASE = rf"(?:{_NUMBER}|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_PRE_RELEASE}(?:\.{_PRE_RELEASE})*)?(?:\+{_BUILD}(?:\.{_BUILD})*)?", re.ASCII
)
_DROPPED = ("sharedCounters", "perDeviceNodeSelection")
_DROPPED_OF_DEVICES = (
    "taints",
    "consumesCounters",
    "nodeName",
    "nodeSelector",
    "allNodes",
    "allowMultipleAllocations",
    "bindsToNode",
    "bindingConditions",
    "bindingFailureConditions",
)


def _default(document: Document) -> Document:
    normal = normal_form(document, "resource.v1.ResourceSlice")
    spec = without_fields(normal["spec"], *_DROPPED)
    if devices := spec.get("devices"):
        spec["devices"] = [_default_device(device) for device in devices]
    return {**normal, "spec": spec}


def _default_device(device: Document) -> Document:
    kept = without_fields(device, *_DROPPED_OF_DEVICES)
    if "capacity" in kept:
        kept["capacity"] = {name: without_fields(one, "requestPolicy") for name, one in kept["capacity"].items()}
    return kept


def _spec_errors(spec: Document) -> list[FieldError]:
    pool, devices = spec["pool"], spec.get("devices") or ()
    errors = driver_errors(spec["driver"], "spec.driver") + _pool_errors(pool, "spec.pool")
    errors += _node_errors(spec, "spec")
    errors += limited_errors(devices, _MAX_DEVICES, _device_errors, "spec.devices")
    return errors + unique_errors([device["name"] for device in devices], "spec.devices", "name")


def _pool_errors(pool: Document, path: str) -> list[FieldError]:
    name, place = pool["name"], f"{path}.name"
    errors = [] if name else [required(place)]
    errors += [too_long(place, _MAX_POOL_BYTES)] if byte_length(name) > _MAX_POOL_BYTES else []
    for part in name.split("/") if name else ():
        errors += each_invalid(place, part, dns1123_subdomain_errors(part))
    if pool["resourceSliceCount"] <= 0:
        errors.append(invalid(f"{path}.resourceSliceCount", pool["resourceSliceCount"], "must be greater than zero"))
    if pool["generation"] < 0:
        errors.append(invalid(f"{path}.generation", pool["generation"], "must be greater than or equal to zero"))
    return errors


def _node_errors(spec: Document, path: str) -> list[FieldError]:
    """Validates that the slice says in one way which nodes have the devices."""
    errors: list[FieldError] = []
    name, selector, everywhere = spec.get("nodeName"), spec.get("nodeSelector"), spec.get("allNodes")
    if name is not None:
        wrong = [invalid(f"{path}.nodeName", name, "must be either unset or set to a non-empty string")]
        errors += each_invalid(f"{path}.nodeName", name, dns1123_subdomain_errors(name)) if name else wrong
    if selector is not None:
        errors += node_selector_errors(selector, f"{path}.nodeSelector")
        terms = selector.get("nodeSelectorTerms") or ()
        if len(terms) != 1:
            place = f"{path}.nodeSelector.nodeSelectorTerms"
            errors.append(invalid(place, terms, "must have exactly one node selector term"))
    if everywhere is False:
        errors.append(invalid(f"{path}.allNodes", everywhere, "must be either unset or set to true"))
    chosen = {"`nodeName`": name, "`nodeSelector`": selector is not None, "`allNodes`": everywhere}
    shown = [field for field, is_set in chosen.items() if is_set]
    if not shown:
        errors.append(required(path, _ONE_NODE))
    elif len(shown) > 1:
        errors.append(invalid(path, f"{{{', '.join(shown)}}}", f"{_ONE_NODE}, but multiple fields are set"))
    return errors


def _device_errors(device: Document, path: str) -> list[FieldError]:
    attributes: Mapping[str, Document] = device.get("attributes", {})
    capacity: Mapping[str, Document] = device.get("capacity", {})
    errors = each_invalid(f"{path}.name", device["name"], dns1123_label_errors(device["name"]))
    if (count := len(attributes) + len(capacity)) > _MAX_ATTRIBUTES:
        errors.append(too_many(path, count, _MAX_ATTRIBUTES))
    for name in sorted(attributes):
        place = f"{path}.attributes[{name}]"
        errors += qualified_name_errors(name, place) + _attribute_errors(attributes[name], place)
    for name in sorted(capacity):
        errors += qualified_name_errors(name, f"{path}.capacity[{name}]")
    return errors


def _attribute_errors(attribute: Document, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in ("string", "version"):
        value = attribute.get(name)
        if value is not None and byte_length(value) > _MAX_VALUE_BYTES:
            errors.append(too_long(f"{path}.{name}", _MAX_VALUE_BYTES))
    version = attribute.get("version")
    if version is not None and not _VERSION.fullmatch(version):
        errors.append(invalid(f"{path}.version", version, "must be a string compatible with semver.org spec 2.0.0"))
    count = sum(name in attribute for name in _VALUES)
    if not count:
        errors.append(required(path, "exactly one value must be specified"))
    elif count > 1:
        errors.append(invalid(path, attribute, "exactly one value must be specified"))
    return errors


def _validate_create(document: Document) -> list[FieldError]:
    return metadata_errors(document["metadata"], namespaced=False) + _spec_errors(document["spec"])


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    after, before = new["spec"], old["spec"]
    return [
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *immutable_errors(after["pool"]["name"], before["pool"]["name"], "spec.pool.name"),
        *immutable_errors(after["driver"], before["driver"], "spec.driver"),
        *immutable_errors(after.get("nodeName"), before.get("nodeName"), "spec.nodeName"),
        *_spec_errors(after),
    ]


def _fields(document: Document) -> Mapping[str, str]:
    spec = document["spec"]
    return {
        **metadata_fields(document),
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.driver": spec.get("driver", ""),
    }


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, node, driver, pool, age."""
    spec = at(document, "spec")
    return [
        name_of(document),
        spec.get("nodeName", ""),
        spec.get("driver", ""),
        at(spec, "pool").get("name", ""),
        created(document, age),
    ]


KIND = Kind(
    resource=Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False),
    definition="resource.v1.ResourceSlice",
    strategy=Strategy(
        default=_default,
        prepare_create=first_generation,
        validate_create=_validate_create,
        prepare_update=lambda new, old: next_generation(new, old, changed=new["spec"] != old["spec"]),
        validate_update=_validate_update,
        fields=_fields,
    ),
    cells=_cells,
)
