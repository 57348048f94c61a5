"""Protobuf over HTTP, as Go clients send and ask for it: objects, lists, watches, errors, subresources."""

import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPResponse, HTTPSConnection
from typing import Any

import pytest

from pykubelet.apiserver.serializer.protobuf_decoder import read_protobuf
from pykubelet.apiserver.serializer.protobuf_encoder import document_bytes, watch_frame
from pykubelet_process import ADMIN_TOKEN, ServerProcess

PROTOBUF = "application/vnd.kubernetes.protobuf"
GO_CLIENT = f"{PROTOBUF},application/json"
PARTIAL = f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
NAMESPACE = "/api/v1/namespaces/default"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 0, "default": 3}}},
        "names": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
        "open": {"type": "object", "additionalProperties": {"type": "string"}},
        "any": {"x-kubernetes-preserve-unknown-fields": True},
    },
}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}],
    },
}
CONTAINERS = [{"name": "c", "image": "x", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1"}}}]


class GoClient:
    """Sends documents as protobuf and asks for protobuf."""

    def __init__(self, server: ServerProcess) -> None:
        self._connection = HTTPSConnection("127.0.0.1", server.port, context=server.tls(), timeout=15)

    def send(self, method: str, path: str, body: Any = None, accept: str = GO_CLIENT) -> HTTPResponse:
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": PROTOBUF, "Accept": accept}
        data = body if isinstance(body, bytes) or body is None else document_bytes(body)
        self._connection.request(method, path, body=data, headers=headers)
        return self._connection.getresponse()

    def ask(self, method: str, path: str, body: Any = None, accept: str = GO_CLIENT) -> tuple[int, str, Any]:
        """The status code, the media type and the document of a response."""
        response = self.send(method, path, body, accept)
        data, media = response.read(), response.headers["Content-Type"]
        return response.status, media, read_protobuf(data) if media == PROTOBUF else json.loads(data)

    def made(self, path: str, body: Any) -> Any:
        code, media, document = self.ask("POST", path, body)
        assert (code, media) == (201, PROTOBUF), document
        return document

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[GoClient]:
    with closing(GoClient(server)) as client:
        yield client


def pod(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": CONTAINERS}}


def test_object_is_the_same_in_protobuf_and_json(client: GoClient) -> None:
    """What the server stored from protobuf is served in both."""
    made = client.made(f"{NAMESPACE}/pods", pod("same"))
    code, media, as_json = client.ask("GET", f"{NAMESPACE}/pods/same", accept="application/json")
    assert (code, media, as_json["spec"]["containers"][0]["resources"]["limits"]) == (
        200,
        "application/json",
        {"cpu": "1"},
    )
    _, _, as_protobuf = client.ask("GET", f"{NAMESPACE}/pods/same", accept=PROTOBUF)
    assert made == as_protobuf
    assert client.send("GET", f"{NAMESPACE}/pods/same").read() == document_bytes(as_json)


def test_list_has_the_items_that_json_has(client: GoClient) -> None:
    """A chunk and its continue token, too."""
    for number in range(3):
        client.made(f"{NAMESPACE}/services", {**SERVICE, "metadata": {"name": f"listed-{number}"}})
    for query in ("", "&limit=2"):
        _, _, as_json = client.ask("GET", f"{NAMESPACE}/services?{query}", accept="application/json")
        # The server itself may write meanwhile.
        exact = f"resourceVersionMatch=Exact&resourceVersion={as_json['metadata']['resourceVersion']}"
        as_protobuf = client.send("GET", f"{NAMESPACE}/services?{exact}{query}").read()
        assert as_protobuf == document_bytes(as_json)


SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "s"},
    "spec": {"ports": [{"port": 80, "targetPort": "http"}]},
}


def test_watch_sends_a_frame_for_each_event(client: GoClient) -> None:
    """Each has its length, and the object as a single get returns it."""
    made = client.made(f"{NAMESPACE}/configmaps", {**MAP, "metadata": {"name": "watched"}})
    version = made["metadata"]["resourceVersion"]
    query = f"watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dwatched&resourceVersion={int(version) - 1}"
    get = client.send("GET", f"{NAMESPACE}/configmaps/watched").read()
    response = client.send("GET", f"{NAMESPACE}/configmaps?{query}", accept=f"{PROTOBUF};stream=watch,application/json")
    assert response.headers["Content-Type"] == f"{PROTOBUF};stream=watch"
    assert response.read() == watch_frame("ADDED", get)


MAP = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}}


def test_custom_resource_definition_is_served_from_protobuf(client: GoClient) -> None:
    """Its objects are JSON, and only their metadata protobuf."""
    made = client.made(CRDS, CRD)
    schema = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema == SCHEMA
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}}
    widgets = "/apis/example.com/v1/namespaces/default/widgets"
    while client.send("GET", widgets).read() == b"404 page not found\n":
        pass
    assert client.ask("GET", widgets)[:2] == (200, "application/json")
    assert client.ask("POST", widgets, json.dumps(widget).encode())[0] == 415
    code, media, status = client.ask("GET", widgets, accept=PROTOBUF)
    assert (code, media, status["message"]) == (406, PROTOBUF, NOT_ACCEPTABLE)
    lists = PARTIAL.replace("Metadata", "MetadataList")
    assert client.ask("GET", widgets, accept=lists)[2]["kind"] == "PartialObjectMetadataList"
    code, media, status = client.ask("GET", f"{widgets}/none")
    assert (code, media, status["reason"]) == (404, PROTOBUF, "NotFound")


NOT_ACCEPTABLE = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"


def test_error_is_a_status_in_protobuf(client: GoClient) -> None:
    """A Table is never protobuf."""
    code, media, status = client.ask("GET", f"{NAMESPACE}/pods/none")
    assert (code, media, status["details"]["name"]) == (404, PROTOBUF, "none")
    table = f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1"
    assert client.ask("GET", f"{NAMESPACE}/pods", accept=table)[0] == 406
    assert client.ask("GET", f"{NAMESPACE}/pods", accept=f"{table},application/json")[1] == "application/json"


def test_subresources_take_and_return_protobuf(client: GoClient) -> None:
    """Scale, Binding, TokenRequest, status, resize, Eviction and DeleteOptions."""
    labels = {"app": "scaled"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": CONTAINERS}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    client.made(
        deployments, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "scaled"}, "spec": spec}
    )
    _, _, scale = client.ask("GET", f"{deployments}/scaled/scale")
    scale["spec"] = {"replicas": 2}
    code, media, scale = client.ask("PUT", f"{deployments}/scaled/scale", scale)
    assert (code, media, scale["kind"], scale["spec"]["replicas"]) == (200, PROTOBUF, "Scale", 2)

    client.made(f"{NAMESPACE}/pods", pod("sub"))
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "sub"},
        "target": {"kind": "Node", "name": "n"},
    }
    assert client.made(f"{NAMESPACE}/pods/sub/binding", binding)["kind"] == "Status"
    _, _, bound = client.ask("GET", f"{NAMESPACE}/pods/sub")
    assert bound["spec"]["nodeName"] == "n"
    bound["status"]["phase"] = "Running"
    assert client.ask("PUT", f"{NAMESPACE}/pods/sub/status", bound)[2]["status"]["phase"] == "Running"
    bound = client.ask("GET", f"{NAMESPACE}/pods/sub")[2]
    bound["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}
    code, _, resized = client.ask("PUT", f"{NAMESPACE}/pods/sub/resize", bound)
    assert (code, resized.get("spec", resized)["containers"][0]["resources"]["limits"]) == (200, {"cpu": "2"})

    accounts = f"{NAMESPACE}/serviceaccounts"
    client.made(accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    assert client.made(f"{accounts}/robot/token", request)["status"]["token"].count(".") == 2

    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "sub", "namespace": "default"},
        "deleteOptions": {"gracePeriodSeconds": 0},
    }
    assert client.made(f"{NAMESPACE}/pods/sub/eviction", eviction)["status"] == "Success"
    client.made(f"{NAMESPACE}/configmaps", {**MAP, "metadata": {"name": "deleted"}})
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "other"}}
    assert client.ask("DELETE", f"{NAMESPACE}/configmaps/deleted", options)[0] == 409
    code, media, status = client.ask("DELETE", f"{NAMESPACE}/configmaps/deleted", {**options, "preconditions": {}})
    assert (code, media, status["status"]) == (200, PROTOBUF, "Success")


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/api", "APIVersions"), ("/apis", "APIGroupList"), ("/apis/apps", "APIGroup"), ("/api/v1", "APIResourceList")],
)
def test_discovery_is_served_in_protobuf(client: GoClient, path: str, kind: str) -> None:
    """The documents that are not aggregated."""
    _, _, as_json = client.ask("GET", path, accept="application/json")
    _, _, as_protobuf = client.ask("GET", path, accept=PROTOBUF)
    assert as_json["kind"] == as_protobuf["kind"] == kind
    assert client.send("GET", path, accept=PROTOBUF).read() == document_bytes(as_json)
    for name in ("versions", "groups", "resources"):
        assert len(as_json.get(name, ())) == len(as_protobuf.get(name, ()))
