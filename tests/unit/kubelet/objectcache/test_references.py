"""References to secrets and config maps are found in every pod field, including fields of later schemas."""

import types
from collections.abc import Iterator
from typing import Any, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api import serializer
from pykubelet.api.generated.core import Pod, PodSpec
from pykubelet.kubelet.objectcache.secret_and_configmap_manager import (
    Reference,
    Referent,
    config_map_names,
    references,
    secret_names,
)

Path = tuple[str, ...]


def parts_of(annotation: Any) -> Iterator[Any]:
    """The member types of an annotation: both sides of a union, the elements of a tuple."""
    if get_origin(annotation) in (Union, types.UnionType, tuple):
        for part in get_args(annotation):
            yield from parts_of(part)
    else:
        yield annotation


def leaves(kind: Any, path: Path = (), seen: tuple[Any, ...] = ()) -> Iterator[Path]:
    """Wire paths of all string fields reachable from a Struct; recursive types are followed once."""
    for field in msgspec.structs.fields(kind):
        here = (*path, field.encode_name)
        for part in parts_of(field.type):
            if part is str:
                yield here
            elif isinstance(part, type) and issubclass(part, msgspec.Struct) and part not in seen:
                yield from leaves(part, here, (*seen, part))


def referent(path: Path) -> Referent | None:
    """The kind that a string field refers to, derived from its path."""
    *parents, last = path
    words = parents[-1].lower() if parents else ""
    if last == "secretName" or (last == "name" and "secret" in words):
        return Referent.SECRET
    return Referent.CONFIG_MAP if last == "name" and "configmap" in words else None


REFERENCES = {path: kind for path in leaves(PodSpec) if (kind := referent(path))}


def pod_at(path: Path, value: str) -> Pod:
    """A pod in which only the field at `path` is set; lists on the way hold one element."""

    def build(kind: Any, rest: Path) -> Any:
        head, *tail = rest
        field = next(f for f in msgspec.structs.fields(kind) if f.encode_name == head)
        if not tail:
            return {head: value}
        inner = next(p for p in parts_of(field.type) if isinstance(p, type) and issubclass(p, msgspec.Struct))
        below = build(inner, tuple(tail))
        return {head: [below] if get_origin(field.type) is tuple else below}

    return serializer.from_document({"spec": build(PodSpec, path)}, Pod)


@pytest.mark.parametrize(("path", "kind"), [pytest.param(*item, id=".".join(item[0])) for item in REFERENCES.items()])
def test_reference_is_found_in_every_field(path: Path, kind: Referent) -> None:
    """One field at a time, with the kind derived from its path."""
    assert list(references(pod_at(path, "wanted"))) == [Reference(kind, "wanted")]
    assert list(references(pod_at(path, ""))) == []


def test_schema_walk_finds_the_fields_we_know() -> None:
    """Guards the walk itself: three container lists with four fields each, pull secrets, and the volumes."""
    volumes = [path for path in REFERENCES if path[0] == "volumes"]
    assert len(REFERENCES) == 3 * 4 + 1 + len(volumes)
    assert len(volumes) == 13


def merged(left: Any, right: Any) -> Any:
    """Merges two documents; lists are concatenated."""
    if isinstance(left, dict) and isinstance(right, dict):
        both = {key: merged(left[key], right[key]) for key in left.keys() & right.keys()}
        return {**left, **right, **both}
    return [*left, *right] if isinstance(left, list) else right


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(REFERENCES)), st.sampled_from(("", "a", "b", "c"))), max_size=12))
def test_names_are_exactly_those_of_all_fields_together(chosen: list[tuple[Path, str]]) -> None:
    """Any combination of fields gives the set of its non-empty names."""
    document: Any = {}
    for path, name in chosen:
        document = merged(document, serializer.to_document(pod_at(path, name)))
    pod = serializer.from_document(document, Pod)
    for kind, names in ((Referent.SECRET, secret_names), (Referent.CONFIG_MAP, config_map_names)):
        assert names(pod) == {name for path, name in chosen if name and REFERENCES[path] is kind}
