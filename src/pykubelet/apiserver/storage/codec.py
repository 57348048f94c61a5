"""Converts between the stored version of objects and the version that a resource serves.

Stored JSON starts with `kind`, `apiVersion` and `metadata`, in this order, so the kind of a text can be replaced
without decoding it. Only events, and custom resources with several versions, need a conversion.

Upstream: staging/src/k8s.io/apiserver/pkg/server/storage/storage_codec.go
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document, decode_document, encode
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey
from pykubelet.kinds.kind import Kind

_METADATA = b'"metadata":'


def collection_of(served: Kind) -> str:
    """The collection of a resource; the events of both groups share one."""
    stored = served.stored
    return stored.collection if stored is not None and stored.collection else served.resource.group_resource


def key_of(served: Kind, namespace: str, name: str) -> StoreKey:
    return StoreKey(collection_of(served), namespace if served.resource.namespaced else "", name)


def served_text(served: Kind, text: bytes) -> bytes:
    """A stored text in the version that the resource serves."""
    return text if served.stored is None else encode(in_order(served.stored.to_served(decode_document(text))))


def served_entry(served: Kind, entry: StoreEntry) -> StoreEntry | bytes:
    """A stored entry if the resource serves it as it is, else its text in the version that the resource serves."""
    return entry if served.stored is None else served_text(served, entry.text)


def item_text(served: Kind, text: bytes) -> bytes:
    """A stored text as an item of a list. Items of built-in kinds have no kind and apiVersion."""
    text = served_text(served, text)
    return (b"{" if served.definition else _head(served.resource)) + text[text.index(_METADATA) :]


def list_head(served: Kind) -> bytes:
    """The start of a list's text, up to its metadata."""
    return _head(served.resource, list_kind(served)) + _METADATA


def list_kind(served: Kind) -> str:
    return served.list_kind or f"{served.resource.kind}List"


class StoredList(NamedTuple):
    """The entries of a list with the list's metadata, to be encoded as the client asks.

    A large list is encoded in parts, each of some entries, so a request has no copy of all their texts.
    """

    served: Kind
    metadata: Document
    entries: Sequence[StoreEntry]

    @property
    def size(self) -> int:
        """The bytes of the stored texts."""
        return sum(len(entry.text) for entry in self.entries)

    @property
    def items(self) -> bytes:
        """The items as JSON, with commas between them."""
        return b",".join([item_text(self.served, entry.text) for entry in self.entries])

    @property
    def text(self) -> bytes:
        """The list as JSON, made of the stored texts."""
        return b"".join((list_head(self.served), encode(self.metadata), b',"items":[', self.items, b"]}"))

    @property
    def document(self) -> Document:
        decoded: Document = decode_document(self.text)
        return decoded


@lru_cache(maxsize=4096)
def _head(resource: Resource, kind: str = "") -> bytes:
    return f'{{"kind":"{kind or resource.kind}","apiVersion":"{resource.api_version}",'.encode()


def served_document(served: Kind, entry: StoreEntry) -> Document:
    """A stored entry as a document of the resource; the caller may change it."""
    return served_form(served, decode_document(entry.text))


def served_form(served: Kind, stored: Document) -> Document:
    """Like `served_document`, for a decoded document, which is shared."""
    return stored if served.stored is None else served.stored.to_served(stored)


def stored_form(served: Kind, document: Document) -> Document:
    """A document of the resource in the stored version."""
    return in_order(document if served.stored is None else served.stored.to_stored(document))


def in_order(document: Document) -> Document:
    """The document with `kind`, `apiVersion` and `metadata` first."""
    return {
        "kind": document["kind"],
        "apiVersion": document["apiVersion"],
        "metadata": document["metadata"],
        **document,
    }
