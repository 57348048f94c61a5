"""Converts between the stored version of objects and the version that a resource serves.

Stored JSON starts with `kind`, `apiVersion` and `metadata`, in this order, so the kind of a text can be replaced
without decoding it. Only events, and custom resources with several versions, need a conversion.

Upstream: staging/src/k8s.io/apiserver/pkg/server/storage/storage_codec.go
"""

from functools import lru_cache
from typing import NamedTuple

from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document, decode_document, encode
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey
from pykubelet.kinds.kind import Change, Kind

_METADATA = b'"metadata":'


class _VersionConversion(NamedTuple):
    """The conversion of a kind, computed once; functions are None where no conversion is needed."""

    collection: str
    item_head: bytes
    list_head: bytes
    to_served: Change | None
    to_stored: Change | None


@lru_cache(maxsize=4096)
def _form(resource: Resource, list_kind: str, *, is_custom: bool) -> _VersionConversion:
    head = f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'.encode()
    list_kind = list_kind or f"{resource.kind}List"
    list_head = f'{{"kind":"{list_kind}","apiVersion":"{resource.api_version}","metadata":'.encode()
    return _VersionConversion(resource.group_resource, head if is_custom else b"{", list_head, None, None)


def _form_of(served: Kind) -> _VersionConversion:
    form = _form(served.resource, served.list_kind, is_custom=not served.definition)
    if (stored := served.stored) is None:
        return form
    collection = stored.collection or form.collection
    return form._replace(collection=collection, to_served=stored.to_served, to_stored=stored.to_stored)


def collection_of(served: Kind) -> str:
    """The collection of a resource; the events of both groups share one."""
    return _form_of(served).collection


def key_of(served: Kind, namespace: str, name: str) -> StoreKey:
    return StoreKey(_form_of(served).collection, namespace if served.resource.namespaced else "", name)


def served_text(served: Kind, text: bytes) -> bytes:
    """A stored text in the version that the resource serves."""
    form = _form_of(served)
    return text if form.to_served is None else _converted(form.to_served, text)


def item_text(served: Kind, text: bytes) -> bytes:
    """A stored text as an item of a list."""
    form = _form_of(served)
    if form.to_served is not None:
        text = _converted(form.to_served, text)
    return form.item_head + text[text.index(_METADATA) :]


def list_head(served: Kind) -> bytes:
    """The start of a list's text, up to its metadata."""
    return _form_of(served).list_head


def served_document(served: Kind, entry: StoreEntry) -> Document:
    """A stored entry as a document of the resource; the caller may change it."""
    return served_form(served, decode_document(entry.text))


def served_form(served: Kind, stored: Document) -> Document:
    """Like `served_document`, for a decoded document, which is shared."""
    form = _form_of(served)
    return stored if form.to_served is None else form.to_served(stored)


def stored_form(served: Kind, document: Document) -> Document:
    """A document of the resource in the stored version."""
    form = _form_of(served)
    return in_order(document if form.to_stored is None else form.to_stored(document))


def in_order(document: Document) -> Document:
    """The document with `kind`, `apiVersion` and `metadata` first."""
    return {
        "kind": document["kind"],
        "apiVersion": document["apiVersion"],
        "metadata": document["metadata"],
        **document,
    }


def _converted(convert: Change, text: bytes) -> bytes:
    stored: Document = decode_document(text)
    return encode(in_order(convert(stored)))
