"""Content negotiation: Accept headers and the response formats they give."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.errors import NotAcceptable
from pykubelet.apiserver.handlers.responsewriters import (
    GROUP_DISCOVERY,
    PARTIAL,
    PLAIN,
    TABLE,
    ResponseFormat,
    accepts_gzip,
    discovery_form,
    error_form,
    object_form,
    plain_form,
    wants_pretty,
)

KUBECTL_GET = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
PROTOBUF = ResponseFormat(protobuf=True)
PROTOBUF_TABLE = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1"
PROTOBUF_PARTIAL = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
KUBECTL_DISCOVERY = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", PLAIN),
        ("*/*", PLAIN),
        ("*", PLAIN),
        ("application/*", PLAIN),
        ("application/json", PLAIN),
        ("application/yaml", ResponseFormat(yaml=True)),
        ("application/json;pretty=1", ResponseFormat(pretty=True)),
        ("application/vnd.kubernetes.protobuf", PROTOBUF),
        ("application/vnd.kubernetes.protobuf;stream=watch", PROTOBUF),
        ("application/vnd.kubernetes.protobuf,application/json", PROTOBUF),
        ("application/vnd.kubernetes.protobuf, */*;q=0.1", PROTOBUF),
        ("application/vnd.kubernetes.protobuf;q=0.5,application/json", PLAIN),
        (f"{PROTOBUF_TABLE},application/json", PLAIN),
        (PROTOBUF_PARTIAL, ResponseFormat(PARTIAL, "v1", protobuf=True)),
        (f"{PROTOBUF_PARTIAL.replace('v=v1', 'v=v9')},application/vnd.kubernetes.protobuf", PROTOBUF),
        ("application/json;q=0.5,application/yaml", ResponseFormat(yaml=True)),
        ("application/yaml;q=0.5,application/json;q=0.5", ResponseFormat(yaml=True)),
        ("*/*,application/yaml", ResponseFormat(yaml=True)),
        (KUBECTL_GET, ResponseFormat(TABLE, "v1")),
        ("application/json;as=Table;v=v2;g=meta.k8s.io,application/yaml", ResponseFormat(yaml=True)),
        ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", ResponseFormat(PARTIAL, "v1")),
        ("application/json;as=Nonsense;g=meta.k8s.io;v=v1,application/json", PLAIN),
        ("application/json;stream=watch", PLAIN),
        ("application/json;stream=other,application/yaml", ResponseFormat(yaml=True)),
        ("application/json;sv=v1,application/yaml", ResponseFormat(yaml=True)),
        ("text/html, application/json;q=nonsense", PLAIN),
        (";;;,application/json", PLAIN),
    ],
)
def test_object_form_is_the_first_that_both_sides_know(accept: str, form: ResponseFormat) -> None:
    """Higher quality goes first, then the more specific type, then the order."""
    assert object_form(accept) == form


@pytest.mark.parametrize("accept", ["text/html", PROTOBUF_TABLE, "application/json;as=Table;g=meta.k8s.io;v=v9", "x"])
def test_object_form_refuses_formats_it_does_not_have(accept: str) -> None:
    """The message is upstream's."""
    with pytest.raises(NotAcceptable) as caught:
        object_form(accept)
    assert caught.value.message == (
        "only the following media types are accepted: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    )


def test_object_form_of_a_custom_resource_is_protobuf_only_for_its_metadata() -> None:
    """Go clients also accept JSON, and get it."""
    assert object_form("application/vnd.kubernetes.protobuf,application/json", has_message=False) == PLAIN
    assert object_form(PROTOBUF_PARTIAL, has_message=False).protobuf
    with pytest.raises(NotAcceptable):
        object_form("application/vnd.kubernetes.protobuf", has_message=False)


def test_object_form_of_a_watch_is_never_yaml() -> None:
    """YAML has no way to stream."""
    assert object_form("application/yaml,application/json", stream=True) == PLAIN
    with pytest.raises(NotAcceptable, match="stream=watch"):
        object_form("application/yaml", stream=True)


def test_discovery_form_is_aggregated_for_clients_that_prefer_it() -> None:
    """kubectl prefers it; other clients get the plain form."""
    assert discovery_form(KUBECTL_DISCOVERY).kind == GROUP_DISCOVERY
    assert discovery_form("application/json") == PLAIN
    assert discovery_form("") == PLAIN
    assert discovery_form(KUBECTL_DISCOVERY.replace("json", "vnd.kubernetes.protobuf")) == PROTOBUF
    with pytest.raises(NotAcceptable):
        discovery_form("text/html")


def test_plain_form_ignores_other_kinds_and_errors_always_have_a_form() -> None:
    """A Status is never shown as a Table, and an unusable Accept header does not hide an error."""
    assert plain_form(KUBECTL_GET) == PLAIN
    assert plain_form("") == PLAIN
    assert error_form("application/yaml") == ResponseFormat(yaml=True)
    assert error_form(f"{PROTOBUF_TABLE},application/vnd.kubernetes.protobuf") == PROTOBUF
    assert error_form("text/html") == PLAIN


@pytest.mark.parametrize(
    ("query", "agent", "pretty"),
    [
        ({}, "kubectl/v1.34", False),
        ({}, "curl/8.0", True),
        ({}, "Mozilla/5.0 (X11)", True),
        ({"pretty": "true"}, "kubectl", True),
        ({"pretty": "0"}, "curl/8.0", False),
        ({"pretty": "maybe"}, "curl/8.0", False),
    ],
)
def test_wants_pretty_by_parameter_or_user_agent(*, query: dict[str, str], agent: str, pretty: bool) -> None:
    """The parameter takes precedence over the user agent."""
    assert wants_pretty(PLAIN, query, agent) is pretty
    assert wants_pretty(ResponseFormat(pretty=True), query, agent)


@pytest.mark.parametrize(
    ("header", "accepted"),
    [("", False), ("gzip", True), ("deflate, GZIP", True), ("gzip;q=0", False), ("gzip;q=0.5", True), ("br", False)],
)
def test_accepts_gzip_reads_the_header(*, header: str, accepted: bool) -> None:
    assert accepts_gzip(header) is accepted


@given(st.text(alphabet="aplicton/json*;=,q01. ", max_size=60))
@settings(max_examples=100)
def test_object_form_gives_a_form_or_not_acceptable(accept: str) -> None:
    """This holds for any header."""
    try:
        assert isinstance(object_form(accept), ResponseFormat)
    except NotAcceptable:
        assert accept
