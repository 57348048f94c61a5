"""The file source: static pods from manifest files and directories.

Sends a SET of all pods of all paths whenever they change. Decoding is strict: an unknown field is a problem with file,
line and field path, and the last good version of the file stays. Every document of a file counts, and every item of a
List. If two files name one pod, the running pod is kept, else the first file in sorted order wins. A static pod's UID
is a digest of the document as written, the node name and the path: formatting, comments, key order and the version of
this program do not change it. Upstream hashes the decoded object, so that an upgrade with a new default restarts every
static pod.

Upstream: pkg/kubelet/config/file.go, pkg/kubelet/config/common.go
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct

from pykubelet.api.field_errors import list_text
from pykubelet.api.generated.core import Pod
from pykubelet.api.manifest import ManifestItem
from pykubelet.api.pods import CONFIG_HASH, PodUid, pod_full_name, pod_label
from pykubelet.api.quantity import QuantityError
from pykubelet.api.serializer import DecodeError, Document, from_document, without_nulls
from pykubelet.client.manifests.follower import ManifestContent, ManifestFollower
from pykubelet.client.manifests.last_known_good import (
    FileClaim,
    FileReading,
    FoundManifests,
    ProblemBook,
    ProblemReporter,
    resolve_claims,
    with_losses,
)
from pykubelet.client.manifests.scanner import (
    MANIFEST_EXTENSIONS,
    DocumentProblem,
    is_pod,
    problem_text,
    read_documents,
)
from pykubelet.kinds.pod.defaults import default_pod
from pykubelet.kinds.pod.features import KUBELET_OPTIONS
from pykubelet.kinds.pod.validation import validate_pod_create
from pykubelet.kinds.pod.visitors import UnknownVolumeError, api_references
from pykubelet.kubelet.config.config import SourceChannel
from pykubelet.kubelet.config.merge import Pods
from pykubelet.kubelet.types import PodOperation, PodSource, Trail, WaitStage

# Part of every digest: another algorithm needs another version, or pods would change their UID unnoticed.
_ALGORITHM = "static-pod-1"
_UID_DIGITS = 32  # upstream's length


@dataclass(frozen=True, slots=True)
class ManifestOrigin:
    """Where a manifest comes from: the absolute path of a file, or a URL."""

    kind: PodSource
    location: str


def file_origin(path: str) -> ManifestOrigin:
    """The origin of a manifest file, with an absolute path."""
    return ManifestOrigin(PodSource.FILE, path)


def url_origin(url: str) -> ManifestOrigin:
    """The origin of a manifest from a URL."""
    return ManifestOrigin(PodSource.HTTP, url)


def static_pod_uid(document: Document, *, origin: ManifestOrigin, node_name: str) -> str:
    """The UID of a static pod that names none: 32 lower-case hexadecimal digits."""
    parts = [_ALGORITHM, without_nulls(document), node_name, origin.kind.value, origin.location]
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_UID_DIGITS]


_NO_EXECUTE = {"operator": "Exists", "effect": "NoExecute"}
_TOLERATION_IDENTITY = ("key", "operator", "value", "effect")
# What a static pod may reference where server and node are one machine.
_LOCAL_REFERENCES = ("secrets", "configmaps")


@dataclass(frozen=True, slots=True)
class DecodedPods:
    """The valid pods of a manifest, in order, and its problems; neither of them means an explicit empty list."""

    pods: tuple[Pod, ...] = ()
    problems: tuple[DocumentProblem, ...] = ()


# Directories are named by the UID, so it must not contain a path.
_UID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,126}[A-Za-z0-9])?")


class _NotAPodError(ValueError):
    """A document that cannot become a static pod; the message is for the user."""


def decode_pods(
    data: bytes,
    *,
    origin: ManifestOrigin,
    node_name: str,
    allow_references: bool = False,
    skips_other_kinds: bool = False,
) -> DecodedPods:
    """Decode the static pods of a manifest.

    With `allow_references` they may use config maps and secrets; upstream forbids this. Other API objects are always
    refused. With `skips_other_kinds` documents of other kinds are skipped, else they are problems.
    """
    documents = read_documents(data, origin=origin.location)
    pods: list[Pod] = []
    problems = list(documents.problems)
    for item in documents.items:
        if skips_other_kinds and not is_pod(item):
            continue
        try:
            pods.append(_decode_item(item, origin, node_name, allow_references=allow_references))
        except _NotAPodError as error:
            problems.append(DocumentProblem(str(error), line=item.line))
    return DecodedPods(tuple(pods), tuple(problems))


def _decode_item(item: ManifestItem, origin: ManifestOrigin, node_name: str, *, allow_references: bool) -> Pod:
    if not is_pod(item):
        raise _NotAPodError(f"invalid pod: this is a {item.kind} of {item.api_version}")
    try:
        pod = default_pod(item.document)
        if not pod["metadata"].get("name"):
            raise _NotAPodError("invalid pod: name is needed for the pod")
        given = pod["metadata"].get("uid")
        if given and not _UID.fullmatch(given):
            raise _NotAPodError("invalid pod: metadata.uid may have letters, digits, - and . only, and 128 of them")
        uid = given or static_pod_uid(item.document, origin=origin, node_name=node_name)
        pod = _with_node_defaults(pod, uid, node_name, is_file=origin.kind == PodSource.FILE)
        if errors := validate_pod_create(pod, KUBELET_OPTIONS):
            raise _NotAPodError(f"invalid pod: {list_text(errors)}")
        _refuse_references(pod, allow_references=allow_references)
        return from_document(pod, Pod)
    except (QuantityError, DecodeError, UnknownVolumeError) as error:
        raise _NotAPodError(str(error)) from error


def _with_node_defaults(pod: Document, uid: str, node_name: str, *, is_file: bool) -> Document:
    """The pod with the node's name appended to its own, and a toleration for every NoExecute taint."""
    metadata, spec = pod["metadata"], pod["spec"]
    named = {
        **metadata,
        "uid": uid,
        "name": f"{metadata['name']}-{node_name.lower()}",
        "namespace": metadata.get("namespace", "default"),
        "annotations": {**metadata.get("annotations", {}), CONFIG_HASH: uid},
    }
    placed = {**spec, "nodeName": node_name}
    if is_file:
        placed["tolerations"] = _with_no_execute(spec.get("tolerations", []))
    return {**pod, "metadata": named, "spec": placed, "status": {**pod["status"], "phase": "Pending"}}


def _with_no_execute(tolerations: list[Document]) -> list[Document]:
    """The tolerations with one for every NoExecute taint, replacing those that differ only in duration."""
    result = [_NO_EXECUTE if _is_same(toleration, _NO_EXECUTE) else toleration for toleration in tolerations]
    return result if _NO_EXECUTE in result else [*result, _NO_EXECUTE]


def _is_same(a: Document, b: Document) -> bool:
    return all(a.get(name, "") == b.get(name, "") for name in _TOLERATION_IDENTITY)


def _refuse_references(pod: Document, *, allow_references: bool) -> None:
    for reference in api_references(pod):
        if not (allow_references and reference.startswith(_LOCAL_REFERENCES)):
            raise _NotAPodError(f"static pods may not reference {reference}")


COMPONENT = "sources"


class PodProvenance(Struct, frozen=True):
    """The file or URL of a pod, its problem, and the other files that name the same pod and are ignored."""

    where: str
    problem: str = ""
    ignored: tuple[str, ...] = ()


def file_provenance(
    pods: Iterable[Pod], owners: Mapping[str, str], named: Mapping[str, Iterable[Pod]], problems: Mapping[str, str]
) -> Iterator[tuple[PodUid, PodProvenance]]:
    """The provenance of each pod: `owners` by pod name, pods `named` by file, problems by file or directory."""
    by_name: dict[str, list[str]] = {}
    for path, found in named.items():
        for name in {pod_full_name(pod) for pod in found}:
            by_name.setdefault(name, []).append(path)
    for pod in pods:
        name = pod_full_name(pod)
        where = owners[name]
        ignored = tuple(path for path in by_name.get(name, ()) if path != where)
        yield PodUid(pod.metadata.uid), PodProvenance(where, _problem(where, problems), ignored)


def _problem(path: str, problems: Mapping[str, str]) -> str:
    """The problem of a file, or of the directory it is in."""
    return problems.get(path) or next(
        (f"{place}: {what}" for place, what in problems.items() if path.startswith(f"{place}/")), ""
    )


class ProvenanceTrail:
    """Records the provenance of a source's pods in their trails."""

    def __init__(self, trail: Trail | None) -> None:
        self._trail = trail
        self._recorded: dict[PodUid, PodProvenance] = {}

    def record(self, provenance: Iterable[tuple[PodUid, PodProvenance]]) -> None:
        """Take the provenance of all present pods and record what changed."""
        before, self._recorded = self._recorded, dict(provenance)
        if self._trail is not None:
            for uid, new in self._recorded.items():
                if before.get(uid) != new:
                    _record(self._trail, uid, before.get(uid, PodProvenance("")), new)


def _record(trail: Trail, uid: PodUid, old: PodProvenance, new: PodProvenance) -> None:
    if old.where != new.where:
        trail.note(uid, COMPONENT, "read", place=new.where)
    if new.problem != old.problem:
        if new.problem:
            trail.note(uid, COMPONENT, "kept as it was, its source is broken", place=new.where, problem=new.problem)
        else:
            trail.note(uid, COMPONENT, "its source is in good order again", place=new.where)
        trail.waits(uid, WaitStage.SOURCES, f"{new.where}: {new.problem}" if new.problem else "")
    if new.ignored != old.ignored:
        for place in new.ignored:
            trail.note(uid, COMPONENT, "another manifest that names it is ignored", ignored=place, used=new.where)
        others = ", ".join(new.ignored)
        trail.waits(uid, WaitStage.CLAIMS, f"{others}: ignored, {new.where} has the pod" if others else "")


class FileSource:
    """Follows one or more paths as one source. A path missing at the start counts as empty, and as a problem."""

    def __init__(
        self,
        *,
        path: str | Path | None = None,
        paths: Sequence[str | Path] = (),
        node_name: str,
        channel: SourceChannel,
        problems: ProblemReporter,
        extensions: tuple[str, ...] = MANIFEST_EXTENSIONS,
        allow_references: bool = False,
        skips_other_kinds: bool = False,
    ) -> None:
        """In a directory only files with one of the `extensions` count; "" admits all but editors' backups."""

        def read(data: bytes, file: str) -> FileReading[Pod]:
            decoded = decode_pods(
                data,
                origin=file_origin(file),
                node_name=node_name,
                allow_references=allow_references,
                skips_other_kinds=skips_other_kinds,
            )
            return FileReading(items=decoded.pods, problem=problem_text(decoded.problems))

        self._follower = ManifestFollower(
            paths=[*([] if path is None else [path]), *paths],
            content=ManifestContent(noun="pods", read=read, name_of=pod_full_name),
            extensions=extensions,
        )
        self._channel = channel
        self._book = ProblemBook(channel.source, problems)
        self._owners: Mapping[str, str] = {}
        self._provenance = ProvenanceTrail(channel.trail)
        self._sent: Pods | None = None

    async def run(self, ready: asyncio.Event) -> None:
        """Follow the paths until cancelled; `ready` is set after the first read, whatever it found."""

        async def send(found: FoundManifests[Pod]) -> None:
            await self._send(found)
            ready.set()

        await self._follower.run(send)

    async def _send(self, found: FoundManifests[Pod]) -> None:
        outcome = resolve_claims(found.files, self._owners, _claim)
        self._owners = outcome.owners
        self._book.update(with_losses(found.problems, outcome.losses))
        named = {path: reading.items for path, reading in found.files.items()}
        self._provenance.record(file_provenance(outcome.items, outcome.owners, named, found.problems))
        if found.is_definite and outcome.items != self._sent:
            await self._channel.send(PodOperation.SET, outcome.items)
            self._sent = outcome.items


def _claim(pod: Pod) -> FileClaim:
    return FileClaim(pod_full_name(pod), f"pod {pod_label(pod)}", pod.metadata.uid)
