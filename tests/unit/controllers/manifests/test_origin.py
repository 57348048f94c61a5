"""The label and annotation of applied objects: written with the object, read back, ignored on copies."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.patch.json_merge_patch import apply_merge
from pykubelet.api.schema import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES
from pykubelet.controllers.manifests.desired import (
    ManifestObject,
    ManifestReference,
    applied_object,
    digest_of,
    origin_removal_patch,
    with_origin,
)

MARK = ManifestReference(object="ConfigMap default/a", file='/m/"ä".yaml', folder=7, digest="d")


def stored(**metadata: Any) -> dict[str, Any]:
    """The stored object that was created from a document."""
    document = with_origin({"metadata": {"name": "a"}}, namespace="default", mark=MARK, is_created=True)
    return {**document, "metadata": {**document["metadata"], "uid": "u", **metadata}}


def test_mark_is_read_back_from_the_object() -> None:
    """The result also shows whether the object is being deleted."""
    found = applied_object(CONFIG_MAPS, stored())
    assert found is not None
    assert (found.identity, found.mark) == (ManifestObject("", "ConfigMap", "default", "a"), MARK)
    assert (found.uid, found.is_created, found.is_ending) == ("u", True, False)
    ending = applied_object(CONFIG_MAPS, stored(deletionTimestamp="2026-01-01T00:00:00Z"))
    assert ending is not None
    assert ending.is_ending


@pytest.mark.parametrize(
    "changed",
    [
        {"name": "copy"},
        {"namespace": "other"},
        {"labels": None},
        {"labels": {"pykubelet.io/manifest": "true"}},
        {"annotations": None},
        {"annotations": {"pykubelet.io/manifest": "{"}},
        {"annotations": {"pykubelet.io/manifest": "[]"}},
        {"annotations": {"pykubelet.io/manifest": '{"object": 1}'}},
    ],
)
def test_copies_and_broken_marks_are_none_of_ours(changed: dict[str, Any]) -> None:
    """An object that does not match its mark exactly is left alone."""
    assert applied_object(CONFIG_MAPS, stored(**changed)) is None
    assert applied_object(DEPLOYMENTS, stored()) is None


def test_document_keeps_its_own_labels() -> None:
    """An older mark is replaced; a cluster-scoped object gets no namespace."""
    document = {"kind": "Namespace", "metadata": {"name": "a", "labels": {"app": "x", "pykubelet.io/manifest": "y"}}}
    sent = with_origin(document, namespace="", mark=MARK, is_created=False)
    assert sent["metadata"]["labels"] == {"app": "x", "pykubelet.io/manifest": "adopted"}
    assert "namespace" not in sent["metadata"]
    assert document["metadata"] == {"name": "a", "labels": {"app": "x", "pykubelet.io/manifest": "y"}}
    assert applied_object(NAMESPACES, {"metadata": {**sent["metadata"], "uid": "u"}}) is None


def test_mark_can_be_taken_off() -> None:
    """Only the label and annotation of the mark are removed."""
    bare = apply_merge(stored(), origin_removal_patch("u"))
    assert bare["metadata"] == {"name": "a", "namespace": "default", "uid": "u", "labels": {}, "annotations": {}}


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=1), inner, max_size=2),
    max_leaves=6,
)


@settings(max_examples=80, deadline=None)
@given(one=_VALUES, other=_VALUES)
def test_digest_differs_exactly_when_documents_differ(one: Any, other: Any) -> None:
    """1 is not true, and the order of keys does not count."""
    assert (digest_of({"v": one}) == digest_of({"v": other})) == (repr_sorted(one) == repr_sorted(other))
    assert digest_of({"a": one, "b": other}) == digest_of({"b": other, "a": one})


def repr_sorted(value: Any) -> str:
    if isinstance(value, dict):
        return f"object {sorted((key, repr_sorted(item)) for key, item in value.items())}"
    return repr([repr_sorted(item) for item in value]) if isinstance(value, list) else repr(value)
