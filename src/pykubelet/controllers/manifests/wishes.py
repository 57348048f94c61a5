"""The documents of files as objects of an API server: which one each is, or why it is none.

In: what the files say, and what the server serves. Out: for each file what is to be applied, what is of a kind that is
not served yet, and problems with places.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec import Struct

from pykubelet.api.manifest import ManifestItem
from pykubelet.api.resources import Resource
from pykubelet.controllers.manifests.marks import Identity, Mark, Present, digest_of
from pykubelet.kube.manifests.documents import DocumentProblem, document_problem, is_pod, problem_text, read_documents
from pykubelet.kube.manifests.last_known_good import Found, Reading

DEFAULT_NAMESPACE = "default"

Kinds = Mapping[tuple[str, str], Resource]
"""What is served, by apiVersion and kind."""


@dataclass(frozen=True, slots=True, eq=False)
class Wish:
    """One document of a file. Two readings of a file never give equal ones: lines may have moved."""

    item: ManifestItem
    digest: str

    @property
    def name(self) -> tuple[str, str, str, str]:
        """What tells it from the other documents of its file."""
        metadata = self.item.document.get("metadata") or {}
        group = self.item.api_version.rpartition("/")[0]
        return group, self.item.kind, metadata.get("namespace") or "", metadata.get("name") or ""


class Apply(Struct, frozen=True, kw_only=True):
    """Make an object be as its document says."""

    wish: Wish
    resource: Resource
    identity: Identity
    mark: Mark
    present: Present | None = None
    """The object as it follows its manifest already; None: it is not there, or follows none."""


class Sorted(Struct, frozen=True):
    """The documents of all files."""

    files: Mapping[str, Reading[Apply]]
    unknown: tuple[Wish, ...]
    """Of kinds that are not served, or not yet."""
    problems: Mapping[str, tuple[str, ...]]
    """By file."""


def read_wishes(data: bytes, file: str) -> Reading[Wish]:
    """What a file says of objects; pods are a node's business."""
    documents = read_documents(data, origin=file)
    wishes = (Wish(item, digest_of(item.document)) for item in documents.items if not is_pod(item))
    return Reading(items=tuple(wishes), problem=problem_text(documents.problems))


def kinds_of(resources: Iterable[Resource]) -> Kinds:
    """The first one of a kind counts, as the server prefers it."""
    kinds: dict[tuple[str, str], Resource] = {}
    for resource in resources:
        kinds.setdefault((resource.api_version, resource.kind), resource)
    return kinds


def sort_out(found: Found[Wish], kinds: Kinds) -> Sorted:
    """Find out which object each document is."""
    folders = {file: view.folder for view in reversed(found.views) for file in view.files}
    files: dict[str, Reading[Apply]] = {}
    unknown: list[Wish] = []
    problems: dict[str, tuple[str, ...]] = {}
    for file, reading in found.files.items():
        folder = folders[file]
        applies: list[Apply] = []
        for wish in reading.items:
            resource = kinds.get((wish.item.api_version, wish.item.kind))
            if resource is None:
                unknown.append(wish)
            elif problem := _mistake(wish, resource):
                problems[file] = (*problems.get(file, ()), str(problem))
            else:
                applies.append(_apply(wish, resource, file, folder[1] if folder else 0))
        files[file] = Reading(items=tuple(applies), problem=reading.problem)
    return Sorted(files, tuple(unknown), problems)


def _mistake(wish: Wish, resource: Resource) -> DocumentProblem | None:
    """What no server needs to be asked about."""
    _, kind, namespace, name = wish.name
    if not name:
        message = "a name is needed: one that the server makes up would be another object each time"
        return document_problem(wish.item.problem("metadata.name", message))
    if namespace and not resource.namespaced:
        message = f"a {kind} belongs to no namespace: leave it out"
        return document_problem(wish.item.problem("metadata.namespace", message))
    return None


def _apply(wish: Wish, resource: Resource, file: str, folder: int) -> Apply:
    group, kind, namespace, name = wish.name
    identity = Identity(group, kind, (namespace or DEFAULT_NAMESPACE) if resource.namespaced else "", name)
    mark = Mark(object=str(identity), file=file, folder=folder, digest=wish.digest)
    return Apply(wish=wish, resource=resource, identity=identity, mark=mark)
