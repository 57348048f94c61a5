"""Resource arguments of commands: `po`, `deploy/web`, `pods,svc`, `widgets.example.com`, `all`.

Resolves the arguments to served resources and object names, and converts responses to single objects and lists.

Upstream: staging/src/k8s.io/cli-runtime/pkg/resource/builder.go, staging/src/k8s.io/client-go/restmapper/shortcut.go,
staging/src/k8s.io/client-go/restmapper/category_expansion.go, staging/src/k8s.io/cli-runtime/pkg/printers/name.go,
staging/src/k8s.io/cli-runtime/pkg/printers/managedfields.go
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.client.discovery import ServedResource

_NAMES: tuple[Callable[[ServedResource], tuple[str, ...]], ...] = (
    lambda served: (served.resource.plural,),
    lambda served: (served.singular, served.resource.kind.lower()),
    lambda served: served.short_names,
)
"""The names of a resource, in order of precedence."""


def objects_in(answer: Document) -> Iterator[Document]:
    """The objects of a response, each with its kind: the items of a list, or the object itself."""
    kind = str(answer.get("kind", ""))
    if "items" not in answer or not kind.endswith("List"):
        yield answer
        return
    named_by_list = {"apiVersion": answer.get("apiVersion"), "kind": kind.removesuffix("List")}
    for item in answer["items"] or ():
        yield {**named_by_list, **item}


def list_of(objects: Sequence[Document]) -> Document:
    """Objects of any kinds as one List."""
    return {"apiVersion": "v1", "items": list(objects), "kind": "List", "metadata": {"resourceVersion": ""}}


def without_managed_fields(document: Document) -> Document:
    metadata = document.get("metadata") or {}
    if "managedFields" not in metadata:
        return document
    return {**document, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def named(resource: Resource) -> str:
    """The prefix of an object's name: `pod` or `deployment.apps`."""
    kind = resource.kind.lower()
    return f"{kind}.{resource.group}" if resource.group else kind


class AmbiguousArguments(ValueError):
    """The arguments are invalid, regardless of what the server serves."""


class UnknownResourceType(ValueError):
    """The server serves no such resource."""

    def __init__(self, word: str) -> None:
        super().__init__(f'the server doesn\'t have a resource type "{word}"')


class NoPod(ValueError):
    """The object of a command has no pod to choose."""


@dataclass(frozen=True, slots=True)
class RequestedResource:
    """A resource and the names of some of its objects; without names, all."""

    served: ServedResource
    names: tuple[str, ...] = ()


def requested_resources(words: Sequence[str], catalogue: Sequence[ServedResource]) -> tuple[RequestedResource, ...]:
    """The resources that the arguments name, in order. AmbiguousArguments, UnknownResourceType."""
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
    """The resource that a word names, or those of a category such as `all`; UnknownResourceType if there is none."""
    one = _find(word.lower(), catalogue)
    if one is not None:
        return (one,)
    members = [served for served in _preferred(catalogue) if word.lower() in served.categories]
    if not members:
        raise UnknownResourceType(word)
    return tuple(members)


def resource_of(word: str, catalogue: Sequence[ServedResource]) -> ServedResource:
    """The one resource that a word names; UnknownResourceType if there is none."""
    found = resources_of(word, catalogue)
    if len(found) > 1:
        raise UnknownResourceType(word)
    return found[0]


def served_kind(api_version: str, kind: str, catalogue: Iterable[ServedResource]) -> ServedResource | None:
    """The resource with this API version and kind."""
    matches = (one for one in catalogue if (one.resource.api_version, one.resource.kind) == (api_version, kind))
    return next(matches, None)


def _named(word: str, catalogue: Sequence[ServedResource]) -> RequestedResource:
    kind, slash, name = word.partition("/")
    if not slash:
        raise AmbiguousArguments(f"{word!r} cannot stand beside arguments of the form TYPE/NAME")
    if not kind or not name or "/" in name or "," in kind:
        raise AmbiguousArguments(f"{word!r} is not of the form TYPE/NAME")
    return RequestedResource(resource_of(kind, catalogue), (name,))


def _find(word: str, catalogue: Sequence[ServedResource]) -> ServedResource | None:
    """The resource named as `resource`, `resource.group` or `resource.version.group`."""
    head, _, group = word.partition(".")
    version, _, behind = group.partition(".")
    for names_of in _NAMES:
        for served in catalogue:
            resource = served.resource
            is_group = not group or group == resource.group or (version, behind) == (resource.version, resource.group)
            if is_group and head in names_of(served):
                return served
    return None


def _preferred(catalogue: Sequence[ServedResource]) -> Iterable[ServedResource]:
    """Each resource once, in the preferred version of its group."""
    seen: dict[tuple[str, str], ServedResource] = {}
    for served in catalogue:
        seen.setdefault((served.resource.group, served.resource.plural), served)
    return seen.values()
