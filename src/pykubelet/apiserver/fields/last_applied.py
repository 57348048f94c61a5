"""From client-side to server-side apply: the annotation in which kubectl kept what it had applied.

What that annotation says, and the object still has, was kubectl's own; server-side apply by kubectl takes it over
without a conflict, and keeps the annotation right for a client that goes back.

Upstream: lastappliedmanager.go and lastappliedupdater.go in apimachinery/pkg/util/managedfields/internal
"""

from typing import Any, Final

from pykubelet.api.wire import DecodeError, Document, decode_document
from pykubelet.apiserver.fields.compare import all_of, compare
from pykubelet.apiserver.fields.conflicts import Contested
from pykubelet.apiserver.fields.elements import json_text
from pykubelet.apiserver.fields.field_sets import NOTHING, FieldTree, difference
from pykubelet.apiserver.fields.schema_types import FieldSchema
from pykubelet.apiserver.fields.typed_check import misfits
from pykubelet.apiserver.fields.walk import said

KUBECTL: Final = "kubectl"
"""The manager of `kubectl apply --server-side`; another name opts out."""
_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
# All annotations together, keys and values in bytes.
_LONGEST_ANNOTATIONS = 256 * 1024


def not_its_own(contested: Contested, live: Document, schema: FieldSchema, api_version: str) -> Contested:
    """What is still contested when the fields that kubectl applied before are its own."""
    own = _applied_before(live, schema, api_version)
    left = {owner: difference(fields, own) for owner, fields in contested.items()}
    return {owner: fields for owner, fields in left.items() if fields}


def _applied_before(live: Document, schema: FieldSchema, api_version: str) -> FieldTree:
    try:
        before = decode_document(_annotations(live).get(_ANNOTATION, ""))
    except DecodeError:
        return NOTHING
    if not isinstance(before, dict) or before.get("apiVersion") != api_version:
        return NOTHING
    if any(misfits(before, schema.type)) or any(misfits(live, schema.type)):
        return NOTHING
    # What differs now was changed by others since.
    return difference(said(before, schema.type) or NOTHING, all_of(compare(before, live, schema.type)))


def with_last_applied(document: Document, applied: Document) -> Document:
    """The document with the annotation brought up to date, if it has one."""
    annotations = _annotations(document)
    if not annotations.get(_ANNOTATION):
        return document
    updated = {**annotations, _ANNOTATION: _text(applied)}
    size = sum(len(key.encode()) + len(value.encode()) for key, value in updated.items())
    if size > _LONGEST_ANNOTATIONS:
        del updated[_ANNOTATION]
    return {**document, "metadata": {**document["metadata"], "annotations": updated}}


def _text(applied: Document) -> str:
    metadata = applied.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("annotations"), dict):
        kept = {name: value for name, value in metadata["annotations"].items() if name != _ANNOTATION}
        applied = {**applied, "metadata": {**metadata, "annotations": kept}}
    # Go's encoder sorts the fields and ends with a new line.
    return json_text(applied) + "\n"


def _annotations(document: Document) -> dict[str, Any]:
    annotations: dict[str, Any] = (document.get("metadata") or {}).get("annotations") or {}
    return annotations
