"""The documents of files as objects of an API server: which one each is, or why it is none.

In: what the files say, and what the server serves. Out: for each file what is to be applied, what is of a kind that is
not served yet, and problems with places.

How an object says which manifest it follows.

What was applied is remembered on the objects themselves, by a label and an annotation that the same apply writes: so the
one is never there without the other, whenever the program is killed, and users see where an object comes from.

A mark names its object. A copy under another name or of another kind, with labels, annotations and all, is
therefore not taken for an object of ours. An object that was there before its manifest is marked as adopted.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from pykubelet.aio.msgspec_types import register_type
from pykubelet.api.manifest import ManifestItem
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.client.manifests.last_known_good import FileReading, FoundManifests
from pykubelet.client.manifests.scanner import DocumentProblem, document_problem, is_pod, problem_text, read_documents

FIELD_MANAGER = "pykubelet-up"
LABEL = ANNOTATION = "pykubelet.io/manifest"
CREATED, ADOPTED = "created", "adopted"
_DIGITS = 32


class ManifestObject(msgspec.Struct, frozen=True):
    """Which object, whatever the version of its kind."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        kind = f"{self.kind}.{self.group}" if self.group else self.kind
        return f"{kind} {self.namespace}/{self.name}" if self.namespace else f"{kind} {self.name}"


class ManifestReference(msgspec.Struct, frozen=True):
    """Where an object comes from."""

    object: str
    """The object itself."""
    file: str
    folder: int
    """The inode of the folder that the file is in. The device is not kept: its number may change when a machine starts."""
    digest: str
    """Of the document."""


class AppliedObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object on the server that follows a manifest."""

    identity: ManifestObject
    resource: Resource
    uid: str
    mark: ManifestReference
    is_created: bool
    """Whether the manifest made it; else it was there before."""
    is_ending: bool = False


def digest_of(document: Document) -> str:
    """Tells two documents apart; the order of keys does not count."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def with_origin(document: Document, *, namespace: str, mark: ManifestReference, is_created: bool) -> Document:
    """What is sent to the server: the document as written, its namespace, and the mark."""
    metadata = dict(document["metadata"])
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {**(metadata.get("labels") or {}), LABEL: CREATED if is_created else ADOPTED}
    annotation = json.dumps(msgspec.to_builtins(mark), separators=(",", ":"))
    metadata["annotations"] = {**(metadata.get("annotations") or {}), ANNOTATION: annotation}
    return {**document, "metadata": metadata}


def origin_removal_patch(uid: str) -> Document:
    """The merge patch that takes the mark off the object of this UID."""
    return {"metadata": {"uid": uid, "labels": {LABEL: None}, "annotations": {ANNOTATION: None}}}


def applied_object(resource: Resource, document: Document) -> AppliedObject | None:
    """What a stored object says of itself; None if it follows no manifest."""
    metadata = document["metadata"]
    identity = ManifestObject(resource.group, resource.kind, metadata.get("namespace", ""), metadata["name"])
    try:
        mark = msgspec.json.decode(
            (metadata.get("annotations") or {}).get(ANNOTATION, ""), type=register_type(ManifestReference)
        )
    except msgspec.DecodeError:
        return None
    label = (metadata.get("labels") or {}).get(LABEL)
    if mark.object != str(identity) or label not in {CREATED, ADOPTED}:
        return None
    return AppliedObject(
        identity=identity,
        resource=resource,
        uid=metadata["uid"],
        mark=mark,
        is_created=label == CREATED,
        is_ending="deletionTimestamp" in metadata,
    )


DEFAULT_NAMESPACE = "default"

Kinds = Mapping[tuple[str, str], Resource]
"""What is served, by apiVersion and kind."""


@dataclass(frozen=True, slots=True, eq=False)
class ManifestDocument:
    """One document of a file. Two readings of a file never give equal ones: lines may have moved."""

    item: ManifestItem
    digest: str

    @property
    def name(self) -> tuple[str, str, str, str]:
        """What tells it from the other documents of its file."""
        metadata = self.item.document.get("metadata") or {}
        group = self.item.api_version.rpartition("/")[0]
        return group, self.item.kind, metadata.get("namespace") or "", metadata.get("name") or ""


class DesiredObject(Struct, frozen=True, kw_only=True):
    """Make an object be as its document says."""

    wish: ManifestDocument
    resource: Resource
    identity: ManifestObject
    mark: ManifestReference
    present: AppliedObject | None = None
    """The object as it follows its manifest already; None: it is not there, or follows none."""


class DesiredObjects(Struct, frozen=True):
    """The documents of all files."""

    files: Mapping[str, FileReading[DesiredObject]]
    unknown: tuple[ManifestDocument, ...]
    """Of kinds that are not served, or not yet."""
    problems: Mapping[str, tuple[str, ...]]
    """By file."""


def read_manifest_documents(data: bytes, file: str) -> FileReading[ManifestDocument]:
    """What a file says of objects; pods are a node's business."""
    documents = read_documents(data, origin=file)
    wishes = (ManifestDocument(item, digest_of(item.document)) for item in documents.items if not is_pod(item))
    return FileReading(items=tuple(wishes), problem=problem_text(documents.problems))


def kinds_of(resources: Iterable[Resource]) -> Kinds:
    """The first one of a kind counts, as the server prefers it."""
    kinds: dict[tuple[str, str], Resource] = {}
    for resource in resources:
        kinds.setdefault((resource.api_version, resource.kind), resource)
    return kinds


def resolve_kinds(found: FoundManifests[ManifestDocument], kinds: Kinds) -> DesiredObjects:
    """Find out which object each document is."""
    folders = {file: view.folder for view in reversed(found.views) for file in view.files}
    files: dict[str, FileReading[DesiredObject]] = {}
    unknown: list[ManifestDocument] = []
    problems: dict[str, tuple[str, ...]] = {}
    for file, reading in found.files.items():
        folder = folders[file]
        applies: list[DesiredObject] = []
        for wish in reading.items:
            resource = kinds.get((wish.item.api_version, wish.item.kind))
            if resource is None:
                unknown.append(wish)
            elif problem := _mistake(wish, resource):
                problems[file] = (*problems.get(file, ()), str(problem))
            else:
                applies.append(_apply(wish, resource, file, folder[1] if folder else 0))
        files[file] = FileReading(items=tuple(applies), problem=reading.problem)
    return DesiredObjects(files, tuple(unknown), problems)


def _mistake(wish: ManifestDocument, resource: Resource) -> DocumentProblem | None:
    """What no server needs to be asked about."""
    _, kind, namespace, name = wish.name
    if not name:
        message = "a name is needed: one that the server makes up would be another object each time"
        return document_problem(wish.item.problem("metadata.name", message))
    if namespace and not resource.namespaced:
        message = f"a {kind} belongs to no namespace: leave it out"
        return document_problem(wish.item.problem("metadata.namespace", message))
    return None


def _apply(wish: ManifestDocument, resource: Resource, file: str, folder: int) -> DesiredObject:
    group, kind, namespace, name = wish.name
    identity = ManifestObject(group, kind, (namespace or DEFAULT_NAMESPACE) if resource.namespaced else "", name)
    mark = ManifestReference(object=str(identity), file=file, folder=folder, digest=wish.digest)
    return DesiredObject(wish=wish, resource=resource, identity=identity, mark=mark)
