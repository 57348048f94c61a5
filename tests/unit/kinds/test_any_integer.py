"""Integers at the ends of their range, in each integer field of each kind."""

import json

import pytest

from pykubelet.api import scheme
from pykubelet.api.errors import BadRequest
from pykubelet.api.scheme import TypedKind
from pykubelet.api.serializer import decode, encode
from pykubelet.apiserver.errors import invalid_object
from pykubelet.apiserver.registry import BUILT_IN_KINDS
from pykubelet.apiserver.serializer.decoder import ExpectedKind, read_object
from pykubelet.apiserver.tables.table import as_table
from pykubelet.kinds.kind import Kind
from pykubelet.testing.virtual_time import EPOCH
from schema_walk import document_with, fields_of

_KINDS = [pytest.param(kind, id=kind.resource.group_resource) for kind in BUILT_IN_KINDS if kind.definition]
_VALUES = (2**63 - 1, -(2**63), 2**31, 2**31 - 1, -(2**31), 0, -1)
_TYPES = {kind.resource: kind for kind in vars(scheme).values() if isinstance(kind, TypedKind)}
_STORED = {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "1", "namespace": "default"}


def _write(kind: Kind, body: bytes) -> None:
    """Reads, defaults, validates, shows and updates an object; raises BadRequest at most."""
    strategy = kind.strategy
    document, _ = read_object(body, "application/json", ExpectedKind.of(kind))
    document = strategy.default(document)
    stored = strategy.prepare_create({**document, "metadata": {**document["metadata"], **_STORED}})
    strategy.warnings.create(stored)
    if errors := strategy.validate_create(stored):
        encode(invalid_object(kind.resource, "a", errors).to_status())
    as_table(stored, kind, include="Object", now=EPOCH)
    new = strategy.prepare_update(strategy.default({**stored}), stored)
    strategy.validate_update(new, stored)
    strategy.validate_status(strategy.prepare_status(new, stored), stored)
    strategy.grace_seconds(stored, None)
    if (typed := _TYPES.get(kind.resource)) is not None:
        decode(encode(stored), typed.type)


@pytest.mark.parametrize("kind", _KINDS)
def test_any_integer_is_accepted_or_rejected_without_a_failure(kind: Kind) -> None:
    """An object is stored or gets errors; what is stored can be read by clients of the typed kind."""
    fields = [found for found in fields_of(kind.definition) if "integer" in (found.field.type, _items(found.field))]
    fields += [found for found in fields_of(kind.definition) if found.field.type == "int-or-string"]
    failed: list[str] = []
    for found in fields:
        for value in _VALUES:
            given = [value] if found.field.type == "array" else {"a": value} if found.field.type == "map" else value
            try:
                _write(kind, json.dumps(document_with(kind, found.path, given)).encode())
            except BadRequest:
                continue
            except Exception as error:  # noqa: BLE001  every failure is reported, not only the first
                failed.append(f"{found.name}={value}: {error!r}")
    assert failed == []


def _items(field: object) -> str:
    items = getattr(field, "items", None)
    return items.type if items is not None else ""
