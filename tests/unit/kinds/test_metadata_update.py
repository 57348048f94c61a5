"""Validation of metadata on update."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kinds.metadata import metadata_update_errors

_OLD = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "5", "generation": 3, "finalizers": ["x.io/y"]}
_DYING = {**_OLD, "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}


@pytest.mark.parametrize(
    ("old", "change", "messages"),
    [
        pytest.param(_OLD, {"finalizers": ["x.io/y", "x.io/z"]}, [], id="finalizer"),
        pytest.param(
            _DYING,
            {"finalizers": ["b/c", "a/b"]},
            [
                'metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"a/b", "b/c"}'
            ],
            id="finalizers of the dying",
        ),
        pytest.param(_DYING, {"finalizers": []}, [], id="released"),
        pytest.param(
            _OLD,
            {"resourceVersion": ""},
            ['metadata.resourceVersion: Invalid value: "": must be specified for an update'],
            id="version",
        ),
        pytest.param(
            _OLD, {"generation": 1}, ["metadata.generation: Invalid value: 1: must not be decremented"], id="generation"
        ),
        pytest.param(
            _DYING,
            {"name": "b", "uid": "v", "deletionTimestamp": None, "deletionGracePeriodSeconds": 5},
            [
                'metadata.name: Invalid value: "b": field is immutable',
                'metadata.uid: Invalid value: "v": field is immutable',
                "metadata.deletionTimestamp: Invalid value: null: field is immutable",
                "metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable",
            ],
            id="fixed fields",
        ),
        pytest.param(
            _OLD,
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]},
            ['metadata.ownerReferences.uid: Invalid value: "": must not be empty'],
            id="owners",
        ),
        pytest.param(_OLD, {"generation": 3}, [], id="same generation"),
    ],
)
def test_metadata_is_refused_when_it_changes_what_is_fixed(
    old: dict[str, Any], change: dict[str, Any], messages: list[str]
) -> None:
    """The messages are the API server's, in its order."""
    assert [str(error) for error in metadata_update_errors({**old, **change}, old)] == messages


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"labels": {"a b": "x"}}, "labels"),
        ({"annotations": {"a b": "x"}}, "annotations"),
        ({"managedFields": [{"operation": "X", "fieldsType": "FieldsV1"}]}, "managedFields[0].operation"),
    ],
)
def test_metadata_is_refused_when_a_part_of_it_is_invalid(change: dict[str, Any], field: str) -> None:
    assert [error.field for error in metadata_update_errors({**_OLD, **change}, _OLD)] == [f"metadata.{field}"]


@given(st.dictionaries(st.from_regex("[a-z]{1,9}", fullmatch=True), st.from_regex("[a-z]{0,9}", fullmatch=True)))
def test_metadata_may_always_change_labels_and_annotations(labels: dict[str, str]) -> None:
    assert metadata_update_errors({**_OLD, "labels": labels, "annotations": labels}, _OLD) == []
