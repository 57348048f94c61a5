"""What a write makes of a document: its text at the next revision, or nothing if nothing changes."""

from pykubelet.api.wire import Document, decode_document, encode
from pykubelet.apiserver.store import Entry, Key


def revised(key: Key, before: Entry | None, document: Document, revision: int) -> Entry | None:
    """The entry to store at `revision`; None if the document is the stored one, resourceVersion apart.

    As upstream, a write that changes nothing is answered without writing (etcd3/store.go, GuaranteedUpdate).
    """
    text = _at(document, revision)
    if (
        before is not None
        and _may_be_equal(before, text, revision)
        and _without_revision(before.text) == (_without_revision(text))
    ):
        return None
    return Entry(key, revision, text)


def _at(document: Document, revision: int) -> bytes:
    metadata = document.get("metadata") or {}
    return encode({**document, "metadata": {**metadata, "resourceVersion": str(revision)}})


def _may_be_equal(before: Entry, text: bytes, revision: int) -> bool:
    # Equal documents have texts of equal length whatever the order of their keys; so hardly any write needs decoding.
    return len(text) - len(str(revision)) == len(before.text) - len(str(before.revision))


def _without_revision(text: bytes) -> Document:
    document: Document = decode_document(text)
    del document["metadata"]["resourceVersion"]
    return document
