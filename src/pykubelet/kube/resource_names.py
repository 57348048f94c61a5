"""What people call resources and objects, as what the server calls them.

In: words of a command line (`po`, `deploy/web`, `pods,svc`, `widgets.example.com`, `all`) and what the server serves. Out:
resources with the names of objects, or what is wrong with the words.

Upstream: cli-runtime/pkg/resource/builder.go, client-go/restmapper/{shortcut,category_expansion}.go.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pykubelet.kube.discovery import Served


class UnclearNames(ValueError):
    """The words cannot be understood, whatever the server serves."""


class UnknownResource(ValueError):
    """The server has no such thing."""

    def __init__(self, word: str) -> None:
        super().__init__(f'the server doesn\'t have a resource type "{word}"')


@dataclass(frozen=True, slots=True)
class Wanted:
    """A resource, and the names of some of its objects; none: all."""

    served: Served
    names: tuple[str, ...] = ()


def wanted_of(words: Sequence[str], catalogue: Sequence[Served]) -> tuple[Wanted, ...]:
    """What the words of a command line mean, in their order. UnclearNames, UnknownResource."""
    if not words:
        raise UnclearNames("name a type of resource, as in pods, deploy/web or all")
    if any("/" in word for word in words):
        return tuple(_named(word, catalogue) for word in words)
    kinds, *names = words
    if any("," in name for name in names):
        raise UnclearNames("names of objects have no commas; separate them by spaces")
    found = (served for word in kinds.split(",") if word for served in resources_of(word, catalogue))
    return tuple(Wanted(served, tuple(dict.fromkeys(names))) for served in dict.fromkeys(found))


def resources_of(word: str, catalogue: Sequence[Served]) -> tuple[Served, ...]:
    """The resource a word stands for, or those of a category such as `all`. UnknownResource."""
    one = _find(word.lower(), catalogue)
    if one is not None:
        return (one,)
    members = [served for served in _preferred(catalogue) if word.lower() in served.categories]
    if not members:
        raise UnknownResource(word)
    return tuple(members)


def resource_of(word: str, catalogue: Sequence[Served]) -> Served:
    """The one resource a word stands for. UnknownResource."""
    found = resources_of(word, catalogue)
    if len(found) > 1:
        raise UnknownResource(word)
    return found[0]


def served_kind(api_version: str, kind: str, catalogue: Iterable[Served]) -> Served | None:
    """The resource whose objects are of a kind."""
    matches = (one for one in catalogue if (one.resource.api_version, one.resource.kind) == (api_version, kind))
    return next(matches, None)


def _named(word: str, catalogue: Sequence[Served]) -> Wanted:
    kind, slash, name = word.partition("/")
    if not slash:
        message = f"there is no need to give the type on its own among words of the form TYPE/NAME: {word!r}"
        raise UnclearNames(message)
    if not kind or not name or "/" in name or "," in kind:
        raise UnclearNames(f"{word!r} is not of the form TYPE/NAME")
    return Wanted(resource_of(kind, catalogue), (name,))


def _find(word: str, catalogue: Sequence[Served]) -> Served | None:
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


def _is_plural(served: Served, word: str) -> bool:
    return served.resource.plural == word


def _is_singular(served: Served, word: str) -> bool:
    return word in {served.singular, served.resource.kind.lower()}


def _is_short(served: Served, word: str) -> bool:
    return word in served.short_names


def _preferred(catalogue: Sequence[Served]) -> Iterable[Served]:
    """Each resource once, in the version its group prefers."""
    seen: dict[tuple[str, str], Served] = {}
    for served in catalogue:
        seen.setdefault((served.resource.group, served.resource.plural), served)
    return seen.values()
