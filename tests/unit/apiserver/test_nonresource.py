"""Paths that are not resources: discovery, health, metrics, version and OpenAPI."""

import json

import pytest

from pykubelet.api.errors import MethodNotAllowed, NotAcceptable
from pykubelet.apiserver.nonresource import NonResourceHandler, NonResourceRequest
from pykubelet.apiserver.registry import BUILT_IN_KINDS, ServedKinds
from pykubelet.httpserver.request import read_target
from pykubelet.httpserver.response import HttpResponse

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


def make_pages() -> NonResourceHandler:
    return NonResourceHandler(
        kinds=ServedKinds(BUILT_IN_KINDS),
        address="192.0.2.7:6443",
        checks={"ping": lambda: "", "etcd": lambda: "broken"},
        metrics_page=lambda: b"up 1\n",
        more={"/openid/v1/jwks": lambda: HttpResponse(200, b"{}", "application/jwk-set+json")},
    )


def visit(target: str, method: str = "GET", **headers: str) -> NonResourceRequest:
    return NonResourceRequest(method, read_target(target), **headers)


async def body_at(target: str, **headers: str) -> object:
    reply = await make_pages().answer(visit(target, **headers))
    assert reply is not None
    assert reply.code == 200
    return json.loads(reply.body)


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("/api", "APIVersions"),
        ("/api/", "APIVersions"),
        ("/api/v1", "APIResourceList"),
        ("/apis", "APIGroupList"),
        ("/apis/apps", "APIGroup"),
        ("/apis/apps/v1", "APIResourceList"),
    ],
)
async def test_pages_have_discovery(target: str, kind: str) -> None:
    """They reach from the roots down to a version."""
    document = await body_at(target)
    assert isinstance(document, dict)
    assert document["kind"] == kind


async def test_pages_have_the_address_the_version_and_the_paths() -> None:
    """A client needs these before it sends other requests."""
    document = await body_at("/api")
    assert isinstance(document, dict)
    assert document["serverAddressByClientCIDRs"][0]["serverAddress"] == "192.0.2.7:6443"
    version = await body_at("/version")
    assert isinstance(version, dict)
    assert (version["major"], version["minor"]) == ("1", "34")
    assert all(isinstance(value, str) and value for value in version.values())
    index = await body_at("/")
    assert isinstance(index, dict)
    assert {"/api", "/apis/apps/v1", "/readyz/etcd", "/version", "/openid/v1/jwks"} <= set(index["paths"])


async def test_aggregated_discovery_is_not_sent_again_for_a_known_etag() -> None:
    """A request with the ETag of the first response gets 304."""
    pages = make_pages()
    first = await pages.answer(visit("/apis", accept=AGGREGATED))
    assert first is not None
    assert first.content_type == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    tag = dict(first.headers)["ETag"]
    again = await pages.answer(visit("/apis", accept=AGGREGATED, if_none_match=tag))
    assert again is not None
    assert (again.code, again.body) == (304, b"")


async def test_discovery_follows_the_kinds() -> None:
    """A removed kind is no longer in a page that was served before."""
    registry = ServedKinds(BUILT_IN_KINDS)
    pages = NonResourceHandler(kinds=registry, address="", checks={}, metrics_page=bytes, more={})
    before = await pages.answer(visit("/apis/apps/v1"))
    registry.remove("apps", "v1", "deployments")
    after = await pages.answer(visit("/apis/apps/v1"))
    assert before is not None
    assert after is not None
    assert b'"deployments"' in before.body
    assert b'"deployments"' not in after.body


async def test_open_pages_take_any_method_and_others_only_reading() -> None:
    """Health accepts any method, discovery and version only reads."""
    pages = make_pages()
    health = await pages.answer(visit("/readyz", "POST"))
    assert health is not None
    assert health.code == 500
    metrics = await pages.answer(visit("/metrics"))
    assert metrics is not None
    assert metrics.body == b"up 1\n"
    for target in ("/version", "/api/v1", "/apis"):
        with pytest.raises(MethodNotAllowed):
            await pages.answer(visit(target, "POST"))


@pytest.mark.parametrize(
    "target", ["/nope", "/apis/nope", "/apis/apps/v9", "/api/v2", "/openapi", "/openapi/v3/x", "//"]
)
async def test_pages_are_none_where_there_is_nothing(target: str) -> None:
    """The caller decides on the response."""
    assert await make_pages().answer(visit(target)) is None


@pytest.mark.parametrize(
    ("path", "known"), [("/api/v2", True), ("/apis/apps/v9/x", True), ("/apis/nope/v1", False), ("/x", False)]
)
def test_known_groups_are_those_built_in(*, path: str, known: bool) -> None:
    """Below them a Status describes what is missing."""
    assert make_pages().is_of_known_group(path) is known


async def test_discovery_has_the_form_the_client_takes() -> None:
    """It is YAML, indented JSON for curl, or Not Acceptable."""
    pages = make_pages()
    yaml = await pages.answer(visit("/api", accept="application/yaml"))
    assert yaml is not None
    assert yaml.body.startswith(b"kind: APIVersions\n")
    pretty = await pages.answer(visit("/api", user_agent="curl/8"))
    assert pretty is not None
    assert pretty.body.startswith(b'{\n  "kind"')
    with pytest.raises(NotAcceptable):
        await pages.answer(visit("/api/v1", accept="text/html"))


async def test_openapi_is_served_with_a_tag() -> None:
    """A request with the ETag gets 304."""
    pages = make_pages()
    index = await pages.answer(visit("/openapi/v3"))
    assert index is not None
    assert "api/v1" in json.loads(index.body)["paths"]
    again = await pages.answer(visit("/openapi/v3", if_none_match=dict(index.headers)["ETag"]))
    assert again is not None
    assert again.code == 304
