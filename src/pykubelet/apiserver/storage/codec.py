"""Between the form an object is stored in and the one it is served in.

Objects are stored as JSON that starts with `kind`, `apiVersion` and `metadata`, in this order. So the text of an object
can be given without its kind, as items of lists of built-in kinds are, by exchanging its first bytes: nothing is decoded.
Only events, and custom resources in more than one version, have forms that differ in more than that.

In: a `Served` row and a text or document. Out: the same in its form, or in the stored one.
"""

from functools import lru_cache
from typing import NamedTuple

from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document, decode_document, encode
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey
from pykubelet.kinds.kind import Change, Kind

_METADATA = b'"metadata":'


class _VersionConversion(NamedTuple):
    """What is worked out once for a resource; the functions are None where both forms are the same."""

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
    """Where objects of the resource are stored; both kinds of events share a collection."""
    return _form_of(served).collection


def key_of(served: Kind, namespace: str, name: str) -> StoreKey:
    """Where an object is stored."""
    return StoreKey(_form_of(served).collection, namespace if served.resource.namespaced else "", name)


def served_text(served: Kind, text: bytes) -> bytes:
    """A stored text as the resource serves it."""
    form = _form_of(served)
    return text if form.to_served is None else _converted(form.to_served, text)


def item_text(served: Kind, text: bytes) -> bytes:
    """A stored text as an item of a list."""
    form = _form_of(served)
    if form.to_served is not None:
        text = _converted(form.to_served, text)
    return form.item_head + text[text.index(_METADATA) :]


def list_head(served: Kind) -> bytes:
    """The start of the text of a list, up to its metadata."""
    return _form_of(served).list_head


def served_document(served: Kind, entry: StoreEntry) -> Document:
    """A stored object as a document of the resource."""
    return served_form(served, entry.document)


def served_form(served: Kind, stored: Document) -> Document:
    """The same for a document that is at hand; others may use it too."""
    form = _form_of(served)
    return stored if form.to_served is None else form.to_served(stored)


def stored_form(served: Kind, document: Document) -> Document:
    """A document of the resource as it is stored."""
    form = _form_of(served)
    return in_order(document if form.to_stored is None else form.to_stored(document))


def in_order(document: Document) -> Document:
    """The document with what every object has in front, in the one order in which texts start."""
    return {
        "kind": document["kind"],
        "apiVersion": document["apiVersion"],
        "metadata": document["metadata"],
        **document,
    }


def _converted(convert: Change, text: bytes) -> bytes:
    stored: Document = decode_document(text)
    return encode(in_order(convert(stored)))
