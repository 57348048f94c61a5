"""The fields of every built-in kind: what strict reading may expect.

In: an apiVersion and kind, or the name of a definition. Out: its fields and their types, from `generated/schema.json`,
which is read once. Kinds that are not in it are either custom resources, of which only the metadata is known, or
mistakes; `kind_mistake` tells which.
"""

from difflib import get_close_matches
from functools import cache
from importlib import resources

import msgspec

from pykubelet.aio.learned import learned

OBJECT_META = "meta.v1.ObjectMeta"
LIST_META = "meta.v1.ListMeta"

# Kinds of Kubernetes' own groups that nobody here stores and whose fields are therefore not in the table.
_UNLISTED_KINDS = frozenset(
    {
        "CSIDriver",
        "CSINode",
        "CSIStorageCapacity",
        "ComponentStatus",
        "HorizontalPodAutoscaler",
        "IPAddress",
        "IngressClass",
        "LeaseCandidate",
        "LocalSubjectAccessReview",
        "SelfSubjectReview",
        "ServiceCIDR",
        "VolumeAttachment",
        "VolumeAttributesClass",
    }
)
# Nobody misspells a field in more letters than the longest of them has; comparing costs the square of the length.
_LONGEST_NAME = 64


class Field(msgspec.Struct, frozen=True):
    """One field: its type, the definition it refers to, for lists and maps what they hold, and how Go holds it.

    `shape` is `pointer` where a zero differs from nothing, `value` for an object or a time that is always there,
    `always` for what is written even when empty; without a shape, what is empty is left out. The rest says how the
    parts of a list or map are told apart when it is patched or applied.
    """

    type: str
    ref: str = ""
    items: "Field | None" = None
    shape: str = ""
    list_type: str = ""
    """`atomic`, `set`, `map` or `granular`, for maps as well."""
    map_keys: tuple[str, ...] = ()
    key: str = ""
    strategy: tuple[str, ...] = ()


class Definition(msgspec.Struct, frozen=True, rename="camel"):
    """One type of the API; the top ones have a kind and an apiVersion."""

    fields: dict[str, Field]
    kind: str = ""
    api_version: str = ""


@cache
def definitions() -> dict[str, Definition]:
    """Every definition by its name, such as `core.v1.Pod`."""
    data = resources.files("pykubelet.api.generated").joinpath("schema.json").read_bytes()
    found = msgspec.json.decode(data, type=learned(dict[str, Definition]))
    # No Struct carries it, so the generated table leaves it out; manifests written from a live object have it.
    found[OBJECT_META].fields["managedFields"] = Field("array", items=Field("any"))
    return found


@cache
def _by_kind() -> dict[tuple[str, str], str]:
    return {(known.api_version, known.kind): name for name, known in definitions().items() if known.kind}


def definition_of(api_version: str, kind: str) -> str | None:
    """The name of the definition of a kind, or None if its fields are not known."""
    return _by_kind().get((api_version, kind))


def kind_mistake(api_version: str, kind: str) -> str | None:
    """What is wrong with an apiVersion and kind whose fields are not known; None for a custom resource."""
    versions = {version for version, _ in _by_kind()}
    group = _group(api_version)
    known_group = group in {_group(version) for version in versions}
    # The groups of custom resources are domain names.
    if (not known_group and "." in group) or (known_group and kind in _UNLISTED_KINDS):
        return None
    elsewhere = sorted(version for version, known in _by_kind() if known == kind)
    if elsewhere:
        return f'no kind "{kind}" in "{api_version}" (did you mean "{elsewhere[0]}"?)'
    if api_version not in versions:
        return f'unknown apiVersion "{api_version}"{did_you_mean(api_version, versions)}'
    in_version = {known for version, known in _by_kind() if version == api_version}
    return f'unknown kind "{kind}" in "{api_version}"{did_you_mean(kind, in_version)}'


def did_you_mean(name: str, known: set[str] | dict[str, Field]) -> str:
    """A hint at the known name that is nearest to a wrong one, or nothing."""
    if len(name) > _LONGEST_NAME:
        return ""
    folded = {candidate.casefold(): candidate for candidate in sorted(known, reverse=True)}
    nearest = get_close_matches(name.casefold(), folded, n=1)
    return f' (did you mean "{folded[nearest[0]]}"?)' if nearest else ""


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]
