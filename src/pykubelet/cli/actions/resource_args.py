"""What people call resources and objects, as what the server calls them.

In: words of a command line (`po`, `deploy/web`, `pods,svc`, `widgets.example.com`, `all`) and what the server serves. Out:
resources with the names of objects, or what is wrong with the words.

Upstream: cli-runtime/pkg/resource/builder.go, client-go/restmapper/{shortcut,category_expansion}.go.

Forms of objects that are shown: the items of lists, lists of items, names.

Upstream: kubectl/pkg/cmd/get/get.go, cli-runtime/pkg/printers/{name,managedfields}.go.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.client.discovery import ServedResource


def objects_in(answer: Document) -> Iterator[Document]:
    """The objects of an answer, each with its kind: those of a list, or the one that it is."""
    kind = str(answer.get("kind", ""))
    if "items" not in answer or not kind.endswith("List"):
        yield answer
        return
    named_by_list = {"apiVersion": answer.get("apiVersion"), "kind": kind.removesuffix("List")}
    for item in answer["items"] or ():
        yield {**named_by_list, **item}


def list_of(objects: Sequence[Document]) -> Document:
    """Objects of any kinds, as one."""
    return {"apiVersion": "v1", "items": list(objects), "kind": "List", "metadata": {"resourceVersion": ""}}


def without_managed_fields(document: Document) -> Document:
    """The same without what only machines read."""
    metadata = document.get("metadata") or {}
    if "managedFields" not in metadata:
        return document
    return {**document, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def named(resource: Resource) -> str:
    """`pod` or `deployment.apps`, as names of objects begin."""
    kind = resource.kind.lower()
    return f"{kind}.{resource.group}" if resource.group else kind


class AmbiguousArguments(ValueError):
    """The words cannot be understood, whatever the server serves."""


class UnknownResourceType(ValueError):
    """The server has no such thing."""

    def __init__(self, word: str) -> None:
        super().__init__(f'the server doesn\'t have a resource type "{word}"')


@dataclass(frozen=True, slots=True)
class RequestedResource:
    """A resource, and the names of some of its objects; none: all."""

    served: ServedResource
    names: tuple[str, ...] = ()


def requested_resources(words: Sequence[str], catalogue: Sequence[ServedResource]) -> tuple[RequestedResource, ...]:
    """What the words of a command line mean, in their order. UnclearNames, UnknownResource."""
    if not words:
        raise AmbiguousArguments("name a type of resource, as in pods, deploy/web or all")
    if any("/" in word for word in words):
        return tuple(_named(word, catalogue) for word in words)
    kinds, *names = words
    if any("," in name for name in names):
        raise AmbiguousArguments("names of objects have no commas; separate them by spaces")
    found = (served for word in kinds.split(",") if word for served in resources_of(word, catalogue))
    return tuple(RequestedResource(served, tuple(dict.fromkeys(names))) for served in dict.fromkeys(found))


def resources_of(word: str, catalogue: Sequence[ServedResource]) -> tuple[ServedResource, ...]:
    """The resource a word stands for, or those of a category such as `all`. UnknownResource."""
    one = _find(word.lower(), catalogue)
    if one is not None:
        return (one,)
    members = [served for served in _preferred(catalogue) if word.lower() in served.categories]
    if not members:
        raise UnknownResourceType(word)
    return tuple(members)


def resource_of(word: str, catalogue: Sequence[ServedResource]) -> ServedResource:
    """The one resource a word stands for. UnknownResource."""
    found = resources_of(word, catalogue)
    if len(found) > 1:
        raise UnknownResourceType(word)
    return found[0]


def served_kind(api_version: str, kind: str, catalogue: Iterable[ServedResource]) -> ServedResource | None:
    """The resource whose objects are of a kind."""
    matches = (one for one in catalogue if (one.resource.api_version, one.resource.kind) == (api_version, kind))
    return next(matches, None)


def _named(word: str, catalogue: Sequence[ServedResource]) -> RequestedResource:
    kind, slash, name = word.partition("/")
    if not slash:
        message = f"there is no need to give the type on its own among words of the form TYPE/NAME: {word!r}"
        raise AmbiguousArguments(message)
    if not kind or not name or "/" in name or "," in kind:
        raise AmbiguousArguments(f"{word!r} is not of the form TYPE/NAME")
    return RequestedResource(resource_of(kind, catalogue), (name,))


def _find(word: str, catalogue: Sequence[ServedResource]) -> ServedResource | None:
    """By `resource`, `resource.group` or `resource.version.group`, the resource in any of its forms."""
    head, _, group = word.partition(".")
    version, _, behind = group.partition(".")
    for is_named in (_is_plural, _is_singular, _is_short):
        for served in catalogue:
            resource = served.resource
            if not is_named(served, head):
                continue
            if not group or group == resource.group or (version, behind) == (resource.version, resource.group):
                return served
    return None


def _is_plural(served: ServedResource, word: str) -> bool:
    return served.resource.plural == word


def _is_singular(served: ServedResource, word: str) -> bool:
    return word in {served.singular, served.resource.kind.lower()}


def _is_short(served: ServedResource, word: str) -> bool:
    return word in served.short_names


def _preferred(catalogue: Sequence[ServedResource]) -> Iterable[ServedResource]:
    """Each resource once, in the version its group prefers."""
    seen: dict[tuple[str, str], ServedResource] = {}
    for served in catalogue:
        seen.setdefault((served.resource.group, served.resource.plural), served)
    return seen.values()
