"""How an object says which manifest it follows.

What was applied is remembered on the objects themselves, by a label and an annotation that the same apply writes: so the
one is never there without the other, whenever the program is killed, and users see where an object comes from.

A mark names its object. A copy under another name or of another kind, with labels, annotations and all, is
therefore not taken for an object of ours. An object that was there before its manifest is marked as adopted.
"""

import hashlib
import json

import msgspec

from pykubelet.aio.learned import learned
from pykubelet.api.resources import Resource
from pykubelet.api.wire import Document

FIELD_MANAGER = "pykubelet-up"
LABEL = ANNOTATION = "pykubelet.io/manifest"
CREATED, ADOPTED = "created", "adopted"
_DIGITS = 32


class Identity(msgspec.Struct, frozen=True):
    """Which object, whatever the version of its kind."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        kind = f"{self.kind}.{self.group}" if self.group else self.kind
        return f"{kind} {self.namespace}/{self.name}" if self.namespace else f"{kind} {self.name}"


class Mark(msgspec.Struct, frozen=True):
    """Where an object comes from."""

    object: str
    """The object itself."""
    file: str
    folder: int
    """The inode of the folder that the file is in. The device is not kept: its number may change when a machine starts."""
    digest: str
    """Of the document."""


class Present(msgspec.Struct, frozen=True, kw_only=True):
    """An object on the server that follows a manifest."""

    identity: Identity
    resource: Resource
    uid: str
    mark: Mark
    is_created: bool
    """Whether the manifest made it; else it was there before."""
    is_ending: bool = False


def digest_of(document: Document) -> str:
    """Tells two documents apart; the order of keys does not count."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def marked(document: Document, *, namespace: str, mark: Mark, is_created: bool) -> Document:
    """What is sent to the server: the document as written, its namespace, and the mark."""
    metadata = dict(document["metadata"])
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {**(metadata.get("labels") or {}), LABEL: CREATED if is_created else ADOPTED}
    annotation = json.dumps(msgspec.to_builtins(mark), separators=(",", ":"))
    metadata["annotations"] = {**(metadata.get("annotations") or {}), ANNOTATION: annotation}
    return {**document, "metadata": metadata}


def unmarked(uid: str) -> Document:
    """The merge patch that takes the mark off the object of this UID."""
    return {"metadata": {"uid": uid, "labels": {LABEL: None}, "annotations": {ANNOTATION: None}}}


def present(resource: Resource, document: Document) -> Present | None:
    """What a stored object says of itself; None if it follows no manifest."""
    metadata = document["metadata"]
    identity = Identity(resource.group, resource.kind, metadata.get("namespace", ""), metadata["name"])
    try:
        mark = msgspec.json.decode((metadata.get("annotations") or {}).get(ANNOTATION, ""), type=learned(Mark))
    except msgspec.DecodeError:
        return None
    label = (metadata.get("labels") or {}).get(LABEL)
    if mark.object != str(identity) or label not in {CREATED, ADOPTED}:
        return None
    return Present(
        identity=identity,
        resource=resource,
        uid=metadata["uid"],
        mark=mark,
        is_created=label == CREATED,
        is_ending="deletionTimestamp" in metadata,
    )
