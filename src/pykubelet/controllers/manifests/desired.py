"""Turns manifest documents into the objects to apply, or into problems with file, line and field.

Each object names its manifest in a label and an annotation. The same apply writes both, so neither exists without the
other, and users see where an object comes from. The annotation names its object, so that a copy under
another name or kind is not mistaken for one of ours. Objects that existed before their manifest are labelled as
adopted.
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
DEFAULT_NAMESPACE = "default"
Kinds = Mapping[tuple[str, str], Resource]
"""The served resources by apiVersion and kind."""


class ManifestObject(msgspec.Struct, frozen=True):
    """The identity of an object, independent of the version of its kind."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        kind = f"{self.kind}.{self.group}" if self.group else self.kind
        return f"{kind} {self.namespace}/{self.name}" if self.namespace else f"{kind} {self.name}"


class ManifestReference(msgspec.Struct, frozen=True):
    """The origin of an object, stored in its annotation."""

    object: str
    """The object the annotation belongs to."""
    file: str
    folder: int
    """The inode of the file's folder. The device is omitted because its number may change at boot."""
    digest: str
    """A hash of the whole document, which tells whether it changed."""


class AppliedObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object on the server that carries our label."""

    identity: ManifestObject
    resource: Resource
    uid: str
    mark: ManifestReference
    is_created: bool
    """Whether the manifest created it; otherwise it existed before."""
    is_ending: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ManifestDocument:
    """One document of a file. Documents of two scans are never equal, since lines may have moved."""

    item: ManifestItem
    digest: str

    @property
    def name(self) -> tuple[str, str, str, str]:
        """What identifies the document within its file."""
        metadata = self.item.document.get("metadata") or {}
        group = self.item.api_version.rpartition("/")[0]
        return group, self.item.kind, metadata.get("namespace") or "", metadata.get("name") or ""


class DesiredObject(Struct, frozen=True, kw_only=True):
    """A document to apply, with its resource and the identity that its annotation gets."""

    document: ManifestDocument
    resource: Resource
    identity: ManifestObject
    mark: ManifestReference
    present: AppliedObject | None = None
    """The object as applied before; None if it does not exist or has no label of ours."""


class DesiredObjects(Struct, frozen=True):
    """The documents of all files."""

    files: Mapping[str, FileReading[DesiredObject]]
    unknown: tuple[ManifestDocument, ...]
    """Documents of kinds that are not served, or not yet."""
    problems: Mapping[str, tuple[str, ...]]
    """Problems by file."""


def digest_of(document: Document) -> str:
    """The digest of a document, independent of key order."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def with_origin(document: Document, *, namespace: str, mark: ManifestReference, is_created: bool) -> Document:
    """The document to apply: as written, with its namespace, our label and annotation."""
    metadata = dict(document["metadata"])
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {**(metadata.get("labels") or {}), LABEL: CREATED if is_created else ADOPTED}
    annotation = json.dumps(msgspec.to_builtins(mark), separators=(",", ":"))
    metadata["annotations"] = {**(metadata.get("annotations") or {}), ANNOTATION: annotation}
    return {**document, "metadata": metadata}


def origin_removal_patch(uid: str) -> Document:
    """The merge patch that removes our label and annotation from the object of this UID."""
    return {"metadata": {"uid": uid, "labels": {LABEL: None}, "annotations": {ANNOTATION: None}}}


def applied_object(resource: Resource, document: Document) -> AppliedObject | None:
    """Reads the origin of a stored object; None if it has none."""
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


def read_manifest_documents(data: bytes, file: str) -> FileReading[ManifestDocument]:
    """The documents of a file, without pods, which the node runs."""
    documents = read_documents(data, origin=file)
    found = (ManifestDocument(item, digest_of(item.document)) for item in documents.items if not is_pod(item))
    return FileReading(items=tuple(found), problem=problem_text(documents.problems))


def kinds_of(resources: Iterable[Resource]) -> Kinds:
    """The resource of each kind: the first listed, which is the version the server prefers."""
    kinds: dict[tuple[str, str], Resource] = {}
    for resource in resources:
        kinds.setdefault((resource.api_version, resource.kind), resource)
    return kinds


def resolve_kinds(found: FoundManifests[ManifestDocument], kinds: Kinds) -> DesiredObjects:
    folders = {file: view.folder for view in reversed(found.views) for file in view.files}
    files: dict[str, FileReading[DesiredObject]] = {}
    unknown: list[ManifestDocument] = []
    problems: dict[str, tuple[str, ...]] = {}
    for file, reading in found.files.items():
        folder = folders[file]
        applies: list[DesiredObject] = []
        for document in reading.items:
            resource = kinds.get((document.item.api_version, document.item.kind))
            if resource is None:
                unknown.append(document)
            elif problem := _problem_of(document, resource):
                problems[file] = (*problems.get(file, ()), str(problem))
            else:
                applies.append(_desired_object(document, resource, file, folder[1] if folder else 0))
        files[file] = FileReading(items=tuple(applies), problem=reading.problem)
    return DesiredObjects(files, tuple(unknown), problems)


def _problem_of(document: ManifestDocument, resource: Resource) -> DocumentProblem | None:
    """A problem that can be found without the server."""
    _, kind, namespace, name = document.name
    if not name:
        message = "a name is required: with generateName each apply would create another object"
        return document_problem(document.item.problem("metadata.name", message))
    if namespace and not resource.namespaced:
        message = f"{kind} is cluster-scoped: remove the namespace"
        return document_problem(document.item.problem("metadata.namespace", message))
    return None


def _desired_object(document: ManifestDocument, resource: Resource, file: str, folder: int) -> DesiredObject:
    group, kind, namespace, name = document.name
    identity = ManifestObject(group, kind, (namespace or DEFAULT_NAMESPACE) if resource.namespaced else "", name)
    mark = ManifestReference(object=str(identity), file=file, folder=folder, digest=document.digest)
    return DesiredObject(document=document, resource=resource, identity=identity, mark=mark)
