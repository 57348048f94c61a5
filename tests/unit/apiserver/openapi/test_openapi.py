"""OpenAPI documents for kubectl's explain, apply and validation."""

from dataclasses import replace
from typing import Any

import pytest

from pykubelet.api.schema import Resource
from pykubelet.api.serializer import decode_document
from pykubelet.apiserver.openapi.handler import V2_PROTOBUF_SENT, OpenApi
from pykubelet.apiserver.registry import BUILT_IN_KINDS, ServedKinds
from pykubelet.kinds.kind import Kind

WIDGETS = Kind(
    resource=Resource("example.com", "v1", "widgets", "Widget"),
    singular="widget",
    structural={
        "type": "object",
        "description": "A widget.",
        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "nullable": True}}}},
    },
)


def dangling(value: Any, prefix: str, known: Any) -> list[str]:
    """The references to definitions that do not exist."""
    if isinstance(value, dict):
        reference = value.get("$ref")
        own = [reference] if isinstance(reference, str) and reference.removeprefix(prefix) not in known else []
        return own + [name for item in value.values() for name in dangling(item, prefix, known)]
    if isinstance(value, list):
        return [name for item in value for name in dangling(item, prefix, known)]
    return []


@pytest.fixture
def openapi() -> OpenApi:
    return OpenApi(ServedKinds((*BUILT_IN_KINDS, WIDGETS)))


async def test_every_group_has_a_v3_document_without_dangling_references(openapi: OpenApi) -> None:
    """The index lists the documents; each contains all that it refers to."""
    index = decode_document((await openapi.v3()).text)
    assert {"api/v1", "apis/apps/v1", "apis/example.com/v1"} <= set(index["paths"])
    for path in index["paths"]:
        published = await openapi.v3_of(path)
        assert published is not None
        document = decode_document(published.text)
        assert dangling(document, "#/components/schemas/", document["components"]["schemas"]) == []
    assert await openapi.v3_of("apis/nope/v1") is None


async def test_v3_lets_kubectl_find_kinds_and_parameters(openapi: OpenApi) -> None:
    """A path names its kind, a schema is found by it, and a patch takes dryRun and fieldValidation."""
    published = await openapi.v3_of("apis/apps/v1")
    assert published is not None
    document = decode_document(published.text)
    kind = {"group": "apps", "version": "v1", "kind": "Deployment"}
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == kind
    assert {"dryRun", "fieldValidation", "force"} <= {parameter["name"] for parameter in patch["parameters"]}
    schema = document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"]
    assert kind in schema["x-kubernetes-group-version-kind"]
    spec = schema["properties"]["spec"]
    assert spec["allOf"] == [{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"}]


async def test_v2_holds_everything_and_merge_keys(openapi: OpenApi) -> None:
    """It has no dangling references; lists have merge keys, and nullable fields have no type."""
    document = decode_document((await openapi.v2(protobuf=False)).text)
    assert dangling(document, "#/definitions/", document["definitions"]) == []
    containers = document["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    widget = document["definitions"]["com.example.v1.Widget"]
    assert widget["properties"]["spec"]["properties"]["size"] == {}
    assert document["definitions"]["com.example.v1.WidgetList"]["required"] == ["items"]


def fields_of(data: bytes) -> list[tuple[int, Any]]:
    """The fields of a protobuf message: numbers, and bytes or integers."""
    found: list[tuple[int, Any]] = []
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(data):
        tag = varint()
        if tag & 7 == 0:
            found.append((tag >> 3, varint()))
            continue
        size = varint() if tag & 7 == 2 else 8
        found.append((tag >> 3, data[place : place + size]))
        place += size
    assert place == len(data)
    return found


async def test_protobuf_form_holds_the_same_definitions(openapi: OpenApi) -> None:
    """The test reads back the names of all definitions, all paths, and the merge key of a list."""
    published = await openapi.v2(protobuf=True)
    assert published.content_type == V2_PROTOBUF_SENT
    document = decode_document((await openapi.v2(protobuf=False)).text)
    message = dict(fields_of(published.text))
    named = {dict(fields_of(entry))[1].decode(): dict(fields_of(entry))[2] for _, entry in fields_of(message[9])}
    assert named.keys() == document["definitions"].keys()
    paths = [dict(fields_of(entry))[1].decode() for number, entry in fields_of(message[8]) if number == 2]
    assert paths == list(document["paths"])
    pod_spec = dict(fields_of(named["io.k8s.api.core.v1.PodSpec"]))
    properties = {dict(fields_of(entry))[1].decode(): dict(fields_of(entry))[2] for _, entry in fields_of(pod_spec[25])}
    extensions = [dict(fields_of(entry)) for number, entry in fields_of(properties["containers"]) if number == 31]
    assert {1: b"x-kubernetes-patch-merge-key", 2: b'\x12\x06"name"'} in extensions


async def test_documents_are_cached_until_kinds_change() -> None:
    """The same bytes are served until a kind is added; a changed schema changes only its group's URL in the index."""
    kinds = ServedKinds(BUILT_IN_KINDS)
    openapi = OpenApi(kinds)
    first = await openapi.v3()
    assert await openapi.v3() is first
    kinds.add(WIDGETS)
    second = decode_document((await openapi.v3()).text)["paths"]
    kinds.add(replace(WIDGETS, structural={"type": "object"}))
    third = decode_document((await openapi.v3()).text)["paths"]
    changed = {path for path in third if third[path] != second[path]}
    assert changed == {"apis/example.com/v1"}
