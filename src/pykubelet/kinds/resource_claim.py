"""ResourceClaim: the devices that pods ask for.

Fields of gates that are off in 1.34 are dropped: tolerations, capacities and distinct attributes.

Upstream: pkg/registry/resource/resourceclaim/strategy.go, pkg/apis/resource/v1/defaults.go,
pkg/apis/resource/validation/validation.go
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from pykubelet.api.field_errors import FieldError, each_invalid, forbidden, invalid, not_supported, required, too_long
from pykubelet.api.names import byte_length, c_identifier_errors, dns1123_label_errors, dns1123_subdomain_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import at, created, name_of
from pykubelet.kinds.device_class import (
    configurations_errors,
    driver_errors,
    limited_errors,
    selectors_errors,
    unique_errors,
)
from pykubelet.kinds.kind import Kind, Strategy, restore_spec, restore_status, without_fields
from pykubelet.kinds.metadata import IMMUTABLE, immutable_errors, metadata_errors, metadata_update_errors
from pykubelet.kinds.pod.scheduling import node_selector_errors

_DEFINITION = "resource.v1.ResourceClaim"
_MAX_REQUESTS = _MAX_CONSTRAINTS = 32
_MAX_ALTERNATIVES = 8
_MAX_CONSUMERS = 256
_MAX_ID_BYTES = 32
_MODES = ("All", "ExactCount")
_ONE_REQUEST = "exactly one of `exactly` or `firstAvailable` is required"
_REQUEST_NAME = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
_RequestNames = Mapping[str, AbstractSet[str]]
"""The names of requests, each with those of its alternatives."""


def default_claim_spec(spec: Document) -> Document:
    """The spec of a claim with the defaults of its requests, and without what 1.34 drops."""
    devices: Document = spec["devices"]
    if "requests" in devices:
        devices = {**devices, "requests": [_default_request(request) for request in devices["requests"] or ()]}
    if "constraints" in devices:
        constraints = [without_fields(one, "distinctAttribute") for one in devices["constraints"]]
        devices = {**devices, "constraints": constraints}
    return {**spec, "devices": devices}


def _default_request(request: Document) -> Document:
    request = dict(request)
    if "exactly" in request:
        request["exactly"] = _default_count(request["exactly"])
    if "firstAvailable" in request:
        request["firstAvailable"] = [_default_count(one) for one in request["firstAvailable"]]
    return request


def _default_count(request: Document) -> Document:
    kept = {"allocationMode": "ExactCount", **without_fields(request, "tolerations", "capacity")}
    return {"count": 1, **kept} if kept["allocationMode"] == "ExactCount" else kept


def claim_spec_errors(spec: Document, path: str) -> list[FieldError]:
    """Validates the requests, constraints and configurations of a claim."""
    devices, path = spec["devices"], f"{path}.devices"
    requests = devices.get("requests") or ()
    names: _RequestNames = {one["name"]: {sub["name"] for sub in one.get("firstAvailable", ())} for one in requests}

    def references(one: Document, place: str) -> list[FieldError]:
        given, place = one.get("requests", ()), f"{place}.requests"
        errors = limited_errors(given, _MAX_REQUESTS, lambda name, at: _reference_errors(name, names, at), place)
        return errors + unique_errors(given, place)

    def constraint(one: Document, place: str) -> list[FieldError]:
        attribute, at = one.get("matchAttribute"), f"{place}.matchAttribute"
        named = [required(at)] if attribute is None else fully_qualified_name_errors(attribute, at)
        return references(one, place) + named

    place = f"{path}.requests"
    errors = limited_errors(requests, _MAX_REQUESTS, _request_errors, place)
    errors += unique_errors([one["name"] for one in requests], place, "name")
    errors += limited_errors(devices.get("constraints", ()), _MAX_CONSTRAINTS, constraint, f"{path}.constraints")
    return errors + configurations_errors(devices.get("config", ()), f"{path}.config", references)


def _request_errors(request: Document, path: str) -> list[FieldError]:
    errors = _name_errors(request["name"], f"{path}.name")
    alternatives = request.get("firstAvailable", ())
    if alternatives:
        place = f"{path}.firstAvailable"
        errors += limited_errors(alternatives, _MAX_ALTERNATIVES, _alternative_errors, place)
        errors += unique_errors([one["name"] for one in alternatives], place, "name")
    if "exactly" in request:
        errors += _device_errors(request["exactly"], f"{path}.exactly")
    if not alternatives and "exactly" not in request:
        errors.append(required(path, _ONE_REQUEST))
    if alternatives and "exactly" in request:
        errors.append(invalid(path, None, f"{_ONE_REQUEST}, but multiple fields are set"))
    return errors


def _alternative_errors(request: Document, path: str) -> list[FieldError]:
    return _name_errors(request["name"], f"{path}.name") + _device_errors(request, path)


def _device_errors(request: Document, path: str) -> list[FieldError]:
    name, mode, count = request["deviceClassName"], request["allocationMode"], request.get("count", 0)
    place = f"{path}.deviceClassName"
    errors = each_invalid(place, name, dns1123_subdomain_errors(name)) if name else [required(place)]
    errors += selectors_errors(request.get("selectors", ()), f"{path}.selectors")
    if mode not in _MODES:
        return [*errors, not_supported(f"{path}.allocationMode", mode, _MODES)]
    if mode == "All" and count:
        errors.append(invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'"))
    if mode == "ExactCount" and count <= 0:
        errors.append(invalid(f"{path}.count", count, "must be greater than zero"))
    return errors


def _name_errors(name: str, path: str) -> list[FieldError]:
    return each_invalid(path, name, dns1123_label_errors(name))


def _reference_errors(name: str, names: _RequestNames, path: str) -> list[FieldError]:
    request, *alternative = name.split("/")
    if len(alternative) > 1:
        return [invalid(path, name, _REQUEST_NAME)]
    errors = [error for part in (request, *alternative) for error in _name_errors(part, path)]
    is_known = request in names and (not alternative or alternative[0] in names[request])
    return errors if is_known else [*errors, invalid(path, name, _REQUEST_NAME)]


def qualified_name_errors(name: str, path: str) -> list[FieldError]:
    """Validates the name of an attribute, which may have a domain."""
    if not name:
        return [required(path, "name required")]
    *domains, identifier = name.split("/")
    if len(domains) > 1:
        return []
    errors: list[FieldError] = []
    if domains:
        empty = required(path, "the domain must not be empty")
        errors += driver_errors(domains[0], path) if domains[0] else [empty]
    if not identifier:
        return [*errors, required(path, "the name must not be empty")]
    errors += [too_long(path, _MAX_ID_BYTES)] if byte_length(identifier) > _MAX_ID_BYTES else []
    return errors + each_invalid(path, identifier, c_identifier_errors(identifier))


def fully_qualified_name_errors(name: str, path: str) -> list[FieldError]:
    """Validates the name of an attribute that must have a domain."""
    errors = qualified_name_errors(name, path)
    return errors if not name or "/" in name else [*errors, invalid(path, name, "must include a domain")]


def _default(document: Document) -> Document:
    normal = normal_form(document, _DEFINITION)
    return {**normal, "spec": default_claim_spec(normal["spec"])}


def _validate_create(document: Document) -> list[FieldError]:
    return metadata_errors(document["metadata"]) + claim_spec_errors(document["spec"], "spec")


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    return [
        *_validate_create(new),
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *immutable_errors(new["spec"], old["spec"], "spec"),
        *claim_spec_errors(new["spec"], "spec"),
    ]


def _validate_status(new: Document, old: Document) -> list[FieldError]:
    """Validates who uses the claim; an allocation cannot change once it is made."""
    status, before = new["status"], old["status"]
    consumers, path = status.get("reservedFor", ()), "status.reservedFor"
    errors = metadata_update_errors(new["metadata"], old["metadata"])
    errors += limited_errors(consumers, _MAX_CONSUMERS, _consumer_errors, path)
    errors += unique_errors([one["uid"] for one in consumers], path, "uid")
    allocation = status.get("allocation")
    devices = {_device_key(one) for one in at(allocation or {}, "devices").get("results", ())}
    for index, device in enumerate(status.get("devices", ())):
        if _device_key(device) not in devices:
            detail = "must be an allocated device in the claim"
            errors.append(invalid(f"status.devices[{index}]", "/".join(_device_key(device)), detail))
    errors += unique_errors([_device_key(one) for one in status.get("devices", ())], "status.devices", "deviceID")
    if consumers and allocation is None:
        errors.append(forbidden(path, "may not be specified when `allocated` is not set"))
    elif "deletionTimestamp" in new["metadata"] and any(one not in before.get("reservedFor", ()) for one in consumers):
        detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        errors.append(forbidden(path, detail))
    if allocation is None:
        return errors
    if "allocation" in before:
        changed = allocation != before["allocation"]
        return [*errors, invalid("status.allocation", allocation, IMMUTABLE)] if changed else errors
    if "nodeSelector" in allocation:
        errors += node_selector_errors(allocation["nodeSelector"], "status.allocation.nodeSelector")
    return errors


def _device_key(device: Document) -> tuple[str, ...]:
    return tuple(device.get(name, "") for name in ("driver", "pool", "device", "shareID"))


def _consumer_errors(consumer: Document, path: str) -> list[FieldError]:
    return [required(f"{path}.{name}") for name in ("resource", "name", "uid") if not consumer[name]]


def _state(document: Document) -> str:
    status = at(document, "status")
    is_deleted = at(document, "metadata").get("deletionTimestamp") is not None
    states = ["deleted"] if is_deleted else []
    if status.get("allocation") is None:
        states += [] if is_deleted else ["pending"]
    else:
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    return ",".join(states)


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, state, age."""
    return [name_of(document), _state(document), created(document, age)]


KIND = Kind(
    resource=Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim"),
    definition=_DEFINITION,
    subresources=("status",),
    strategy=Strategy(
        default=_default,
        prepare_create=lambda document: {**document, "status": normal_form({}, "resource.v1.ResourceClaimStatus")},
        validate_create=_validate_create,
        prepare_update=restore_status,
        validate_update=_validate_update,
        prepare_status=restore_spec,
        validate_status=_validate_status,
    ),
    cells=_cells,
)
