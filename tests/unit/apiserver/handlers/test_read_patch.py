"""Patches applied without a server: any input gives an object or an error of the API."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.errors import BadRequest, Invalid, TooLarge
from pykubelet.apiserver.handlers.patch import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, read_patch
from pykubelet.apiserver.serializer.decoder import ExpectedKind

MAP = ExpectedKind("v1", "ConfigMap", "core.v1.ConfigMap")
LIVE = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "v"}}
POD = ExpectedKind("v1", "Pod", "core.v1.Pod")
LIVE_POD = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": {"containers": []}}
LEAVES = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "a", "/data/k", "replace", "$patch"])
NAMES = st.sampled_from(
    ["kind", "metadata", "data", "labels", "name", "k", "op", "path", "value", "from", "$patch", "foo"]
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)


@settings(max_examples=200)
@given(VALUES, st.sampled_from([JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH]))
def test_any_patch_leads_to_an_object_of_the_kind_or_is_refused(content: Any, kind: str) -> None:
    """The live object is never changed, and no other error is raised."""
    before = json.dumps(LIVE)
    try:
        document, problems = read_patch(kind, json.dumps(content).encode(), MAP).applied_to(LIVE)
    except (BadRequest, Invalid, TooLarge):
        pass
    else:
        assert (document["kind"], document["apiVersion"]) == ("ConfigMap", "v1")
        assert isinstance(document["metadata"], dict)
        unknown = set(document) - {"kind", "apiVersion", "metadata", "data", "binaryData", "immutable"}
        assert all(any(f'"{name}"' in problem for problem in problems) for name in unknown)
    assert json.dumps(LIVE) == before


@given(st.dictionaries(st.sampled_from("abk"), st.none() | st.sampled_from("xy"), max_size=3))
def test_all_three_kinds_of_patch_agree_on_plain_fields(changes: dict[str, str | None]) -> None:
    """The patches set and remove keys of a map."""
    operations = [
        {"op": "add", "path": f"/data/{key}", "value": value}
        if value is not None
        else {"op": "remove", "path": f"/data/{key}"}
        for key, value in changes.items()
        if value is not None or key in LIVE["data"]
    ]
    bodies = {JSON_PATCH: operations, MERGE_PATCH: {"data": changes}, STRATEGIC_PATCH: {"data": changes}}
    results = [
        read_patch(kind, json.dumps(body).encode(), MAP).applied_to(LIVE)[0].get("data", {})
        for kind, body in bodies.items()
    ]
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize(
    ("patch", "complaint"),
    [
        ({"spec": "x"}, "cannot restore struct from: string"),
        ({"spec": {"containers": "x"}}, "cannot restore slice from string"),
        ({"spec": {"nodeSelector": []}}, "cannot restore map from slice"),
        ({"spec": {"hostNetwork": "yes"}}, "unrecognized type: bool"),
        ({"spec": {"priority": "high"}}, "unrecognized type: int32"),
        ({"spec": {"priority": 1.5}}, "cannot convert float64 to int32"),
        ({"spec": {"nodeName": True}}, "unrecognized type: string"),
        ({"spec": {"nodeName": 5}}, "cannot convert int64 to string"),
        ({"status": {"startTime": 5}}, "json: cannot unmarshal number into Go value of type string"),
    ],
)
def test_strategic_patch_with_values_of_wrong_types_gives_the_converters_message(
    patch: dict[str, Any], complaint: str
) -> None:
    """Unlike other patches, its result is not encoded and decoded again."""
    with pytest.raises(Invalid) as refused:
        read_patch(STRATEGIC_PATCH, json.dumps(patch).encode(), POD).applied_to(LIVE_POD)
    assert refused.value.message.endswith(f": {complaint}")
