"""An object reduced to its metadata: PartialObjectMetadata and its list.

Upstream: asPartialObjectMetadata in staging/src/k8s.io/apiserver/pkg/endpoints/handlers/response.go
"""

from pykubelet.api.errors import NotAcceptable
from pykubelet.api.wire import Document

META_GROUP = "meta.k8s.io"


def as_partial(document: Document, *, version: str = "v1") -> Document:
    """One object as PartialObjectMetadata; a list is not acceptable. A Status stays what it is."""
    if _is_status(document):
        return document
    if "items" in document:
        kind = document.get("kind", "")
        raise NotAcceptable(f"you requested PartialObjectMetadata, but the requested object is a list ({kind})")
    return _partial(document, version)


def as_partial_list(document: Document, *, version: str = "v1") -> Document:
    """A list as PartialObjectMetadataList; a single object is not acceptable. A Status stays what it is."""
    if _is_status(document):
        return document
    if "items" not in document:
        kind = document.get("kind", "")
        raise NotAcceptable(f"you requested PartialObjectMetadataList, but the requested object is not a list ({kind})")
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"{META_GROUP}/{version}",
        "metadata": document.get("metadata", {}),
        "items": [_partial(item, version) for item in document["items"] or ()],
    }


def _partial(document: Document, version: str) -> Document:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"{META_GROUP}/{version}",
        "metadata": document.get("metadata", {}),
    }


def _is_status(document: Document) -> bool:
    return document.get("kind") == "Status" and document.get("apiVersion") == "v1"
