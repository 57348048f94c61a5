"""Static pods from the bytes of a manifest.

In: the bytes, where they come from and the node's name. Out: a pod for every good document, with the API's and the
node's defaults, and a problem for every bad one. Reading is strict: if the text itself is wrong, an unknown field
included, there are only problems. Every document counts, and so does every item of a list.

Upstream: pkg/kubelet/config/common.go

Tells on the trail of each static pod where it comes from and what is wrong there, as that changes.

Who a static pod is: its UID, from what the user wrote and where.

The UID is a digest of the document as written, of the node and of the place it was read from. Formatting, comments,
the order of keys and the version of this agent do not count; every field does. Upstream takes the decoded object, so
that a new version with a new default field restarts every static pod: pkg/kubelet/config/common.go.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from msgspec import Struct

from pykubelet.api.field_errors import list_text
from pykubelet.api.generated.core import Pod
from pykubelet.api.manifest import ManifestItem
from pykubelet.api.pods import CONFIG_HASH, PodUid, pod_full_name
from pykubelet.api.quantity import QuantityError
from pykubelet.api.serializer import DecodeError, Document, from_document, without_nulls
from pykubelet.client.manifests.scanner import DocumentProblem, is_pod, read_documents
from pykubelet.kinds.pod.defaults import default_pod
from pykubelet.kinds.pod.features import KUBELET_OPTIONS
from pykubelet.kinds.pod.validation import validate_pod_create
from pykubelet.kinds.pod.visitors import UnknownVolumeError, api_references
from pykubelet.kubelet.types import PodSource, Trail, WaitStation

# Part of every digest: another way to compute it needs another name, or pods would change their UID unnoticed.
_ALGORITHM = "static-pod-1"
_UID_DIGITS = 32  # as long as upstream's


@dataclass(frozen=True, slots=True)
class ManifestOrigin:
    """Where a manifest comes from: a file with its absolute path, or a URL."""

    kind: PodSource
    location: str


def file_origin(path: str) -> ManifestOrigin:
    """The origin of a manifest file; the path is absolute."""
    return ManifestOrigin(PodSource.FILE, path)


def url_origin(url: str) -> ManifestOrigin:
    """The origin of a manifest that a web server has."""
    return ManifestOrigin(PodSource.HTTP, url)


def static_pod_uid(document: Document, *, origin: ManifestOrigin, node_name: str) -> str:
    """The UID of a pod that names none: 32 lower-case hexadecimal digits."""
    parts = [_ALGORITHM, without_nulls(document), node_name, origin.kind.value, origin.location]
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_UID_DIGITS]


_NO_EXECUTE = {"operator": "Exists", "effect": "NoExecute"}
_TOLERATION_IDENTITY = ("key", "operator", "value", "effect")
# What a static pod may refer to where server and node are one machine.
_LOCAL_REFERENCES = ("secrets", "configmaps")


@dataclass(frozen=True, slots=True)
class DecodedPods:
    """The good pods of a manifest in their order, and what is wrong with the rest; neither: an explicit empty list."""

    pods: tuple[Pod, ...] = ()
    problems: tuple[DocumentProblem, ...] = ()


# Folders are named by it, so it must not lead anywhere else.
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
    """The static pods of a manifest.

    With `allow_references` they may use config maps and secrets, which upstream refuses; other objects they never may.
    With `skips_other_kinds` what is no pod is passed over, else it is a problem.
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
    """The pod as this node's own: its name is unique among nodes, and no taint drives it off."""
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
    """The tolerations with one for every NoExecute taint, in the place of those that differ from it in duration only."""
    result = [_NO_EXECUTE if _is_same(toleration, _NO_EXECUTE) else toleration for toleration in tolerations]
    return result if _NO_EXECUTE in result else [*result, _NO_EXECUTE]


def _is_same(a: Document, b: Document) -> bool:
    return all(a.get(name, "") == b.get(name, "") for name in _TOLERATION_IDENTITY)


def _refuse_references(pod: Document, *, allow_references: bool) -> None:
    for reference in api_references(pod):
        if not (allow_references and reference.startswith(_LOCAL_REFERENCES)):
            raise _NotAPodError(f"static pods may not reference {reference}")


STATION = "sources"


class PodProvenance(Struct, frozen=True):
    """The place a pod was read from, what is wrong with it, and the other places that name the pod in vain."""

    where: str
    problem: str = ""
    ignored: tuple[str, ...] = ()


def file_provenance(
    pods: Iterable[Pod], owners: Mapping[str, str], named: Mapping[str, Iterable[Pod]], problems: Mapping[str, str]
) -> Iterator[tuple[PodUid, PodProvenance]]:
    """The stories of pods of files: who owns each name, which file names which pods, what is wrong by file or folder."""
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
    """What is wrong with a file, or with the folder it is in."""
    return problems.get(path) or next(
        (f"{place}: {what}" for place, what in problems.items() if path.startswith(f"{place}/")), ""
    )


class ProvenanceTrail:
    """What was told of the pods of one source; belongs to that source. Without a trail nobody hears it."""

    def __init__(self, trail: Trail | None) -> None:
        self._trail = trail
        self._told: dict[PodUid, PodProvenance] = {}

    def tell(self, stories: Iterable[tuple[PodUid, PodProvenance]]) -> None:
        """Take the stories of all pods there are now; tells only what is new, different or healed."""
        before, self._told = self._told, dict(stories)
        if self._trail is not None:
            for uid, story in self._told.items():
                if before.get(uid) != story:
                    _tell(self._trail, uid, before.get(uid, PodProvenance("")), story)


def _tell(trail: Trail, uid: PodUid, old: PodProvenance, new: PodProvenance) -> None:
    if old.where != new.where:
        trail.note(uid, STATION, "read", place=new.where)
    if new.problem != old.problem:
        if new.problem:
            trail.note(uid, STATION, "kept as it was, its source is broken", place=new.where, problem=new.problem)
        else:
            trail.note(uid, STATION, "its source is in good order again", place=new.where)
        trail.waits(uid, WaitStation.SOURCES, f"{new.where}: {new.problem}" if new.problem else "")
    if new.ignored != old.ignored:
        for place in new.ignored:
            trail.note(uid, STATION, "another manifest that names it is ignored", ignored=place, used=new.where)
        others = ", ".join(new.ignored)
        trail.waits(uid, WaitStation.CLAIMS, f"{others}: ignored, {new.where} has the pod" if others else "")
