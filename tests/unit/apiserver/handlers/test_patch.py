"""Patches of every type: their effect, and the errors of invalid ones."""

from typing import Any

import pytest

from verb_requests import APPLY, JSON_PATCH, MERGE, STRATEGIC, Asker, config_map

MAPS = "/api/v1/namespaces/default/configmaps"
DECODING = "error decoding patch: "


@pytest.mark.parametrize(
    ("kind", "body", "refusal"),
    [
        ("application/json", {}, (415, "415: Unsupported Media Type")),
        ("", {}, (415, "415: Unsupported Media Type")),
        (
            JSON_PATCH,
            {},
            (400, f"{DECODING}json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        ),
        (
            JSON_PATCH,
            ["x"],
            (400, f"{DECODING}json: cannot unmarshal string into Go value of type handlers.jsonPatchOp"),
        ),
        (
            JSON_PATCH,
            [{"op": 5}],
            (400, f"{DECODING}json: cannot unmarshal number into Go struct field jsonPatchOp.op of"),
        ),
        (
            JSON_PATCH,
            [{"op": "x", "path": "/a"}],
            (422, "the server rejected our request due to an error in our request"),
        ),
        (JSON_PATCH, [{"op": "remove", "path": "/nope/x"}], (422, "the server rejected our request")),
        (
            JSON_PATCH,
            [{"op": "test", "path": "/data/k", "value": "v"}] * 10_001,
            (413, "Request entity too large: The al"),
        ),
        (JSON_PATCH, b"[", (400, f"{DECODING}unexpected end of JSON input")),
        (MERGE, [], (400, f"{DECODING}json: cannot unmarshal array into Go value of type map[string]interface {{}}")),
        (MERGE, {"data": {"k": 5}}, (422, ' "" is invalid: patch: Invalid value: "{\\"kind\\":\\"ConfigMap\\"')),
        (MERGE, {"kind": "Pod"}, (422, ' "" is invalid: patch: Invalid value:')),
        (
            MERGE,
            {"metadata": {"name": "b"}},
            (400, "the name of the object (b) does not match the name on the URL (a)"),
        ),
        (
            MERGE,
            {"metadata": {"resourceVersion": "1"}},
            (409, 'Operation cannot be fulfilled on configmaps "a": the object'),
        ),
        (STRATEGIC, 5, (400, "json: cannot unmarshal number into Go value of type map[string]interface {}")),
        (STRATEGIC, {"$patch": "nope"}, (400, "unknown patch type: nope in map: map[$patch:nope]")),
        (STRATEGIC, {"$patch": "delete"}, (400, "the name of the object (a based on URL) was undeterminable")),
        (
            STRATEGIC,
            {"data": {"k": 5}},
            (422, ' "" is invalid: patch: Invalid value: "map[data:map[k:5]]": cannot convert int64 to string'),
        ),
        (
            STRATEGIC,
            {"metadata": {"finalizers": "x"}},
            (
                422,
                ' "" is invalid: patch: Invalid value: "map[metadata:map[finalizers:x]]": cannot restore slice from string',
            ),
        ),
        (APPLY, {"kind": "ConfigMap"}, (422, 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value')),
    ],
)
async def test_invalid_patch_is_refused(asker: Asker, kind: str, body: Any, refusal: tuple[int, str]) -> None:
    """Code and message are upstream's; the object stays unchanged."""
    made = await asker.ask("POST", MAPS, config_map("a"))
    code, message = await asker.refused("PATCH", f"{MAPS}/a", body, kind)
    assert (code, message[: len(refusal[1])]) == refusal
    assert await asker.ask("GET", f"{MAPS}/a") == made


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (JSON_PATCH, [{"op": "add", "path": "/data/new", "value": "1"}]),
        (MERGE, {"data": {"new": "1"}}),
        (f"{STRATEGIC}; charset=utf-8", {"data": {"new": "1"}}),
        (APPLY, b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {new: '1'}\n"),
    ],
)
async def test_patch_sets_a_field_and_leaves_the_rest(asker: Asker, kind: str, body: Any) -> None:
    """All four types have the same effect here."""
    await asker.ask("POST", MAPS, config_map("a"))
    query = "?fieldManager=me" if kind == APPLY else ""
    assert (await asker.ask("PATCH", f"{MAPS}/a{query}", body, kind))["data"] == {"k": "v", "new": "1"}


async def test_patch_of_a_missing_object_is_not_found_but_apply_creates_it(asker: Asker) -> None:
    """Apply needs a field manager, and refuses a UID for a missing object."""
    for kind, body in ((JSON_PATCH, []), (MERGE, {}), (STRATEGIC, {})):
        assert await asker.refused("PATCH", f"{MAPS}/a", body, kind) == (404, 'configmaps "a" not found')
    claimed = config_map("a", uid="u")
    code, message = await asker.refused("PATCH", f"{MAPS}/a?fieldManager=me", claimed, APPLY)
    assert (code, message.partition(": ")[2]) == (
        409,
        "uid mismatch: the provided object specified uid u, and no existing object was found",
    )
    answer = await asker.answer("PATCH", f"{MAPS}/a?fieldManager=me", config_map("a"), APPLY)
    assert answer.code == 201
    assert answer.document["metadata"]["managedFields"][0]["manager"] == "me"


async def test_force_is_for_apply_only(asker: Asker) -> None:
    """Any other patch with force is refused."""
    await asker.ask("POST", MAPS, config_map("a"))
    code, message = await asker.refused("PATCH", f"{MAPS}/a?force=true", {}, MERGE)
    expected = 'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch'
    assert (code, message) == (422, expected)


async def test_json_patch_warns_about_unknown_and_duplicate_members(asker: Asker) -> None:
    await asker.ask("POST", MAPS, config_map("a"))
    body = b'[{"op":"add","path":"/data/n","value":"1","foo":1,"op":"add"}]'
    answer = await asker.answer("PATCH", f"{MAPS}/a", body, JSON_PATCH)
    assert answer.warnings == ('json patch unknown field "[0].foo"', 'json patch duplicate field "[0].op"')


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        (
            b"{not json",
            "error decoding YAML: error converting YAML to JSON: yaml: line 1: did not find expected ',' or '}'",
        ),
        (b"", "invalid object type: /, Kind="),
        (
            b"[]",
            (
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value "
                "of type map[string]interface {}"
            ),
        ),
        (
            b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: a, x: b}\n",
            (
                "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n"
                '  line 4: key "x" already set in map'
            ),
        ),
    ],
    ids=["garbage", "empty", "list", "repeated"],
)
async def test_apply_of_an_invalid_document_gives_gos_message(asker: Asker, body: bytes, refusal: str) -> None:
    """Go's reader counts lines in its own way."""
    query = "fieldManager=m&fieldValidation=Strict"
    assert await asker.refused("PATCH", f"{MAPS}/a?{query}", body, APPLY) == (400, refusal)


async def test_strategic_patch_of_the_kind_changes_nothing(asker: Asker) -> None:
    """Upstream patches a typed object, so kind and apiVersion in the patch have no effect."""
    made = await asker.ask("POST", MAPS, config_map("a"))
    assert await asker.ask("PATCH", f"{MAPS}/a", {"kind": "Pod", "apiVersion": "v2"}, STRATEGIC) == made
