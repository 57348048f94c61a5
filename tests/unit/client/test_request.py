"""HTTP requests as they are sent, and responses as they are parsed."""

from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.errors import (
    BadRequest,
    Conflict,
    Gone,
    InternalError,
    NotFound,
    ServiceUnavailable,
    TooManyRequests,
)
from pykubelet.api.generated.core import Binding
from pykubelet.api.schema import LEASES, NODES, POD_BINDINGS, PODS
from pykubelet.api.scheme import PODS as POD_KIND
from pykubelet.api.scheme import as_documents, metadata_of
from pykubelet.client.interface import NOW, PatchType, Selection
from pykubelet.client.request import (
    RestRequest,
    accepting_metadata,
    apply_plan,
    create_plan,
    delete_plan,
    get_plan,
    list_plan,
    may_repeat,
    patch_plan,
    read_error,
    read_list,
    read_object,
    read_warnings,
    watch_plan,
)


def test_plans_have_the_paths_and_parameters_of_the_api() -> None:
    """For each verb."""
    assert get_plan(PODS, "web", "default", "0") == RestRequest(
        "GET", "/api/v1/namespaces/default/pods/web?resourceVersion=0"
    )
    assert get_plan(NODES, "n1", "", "").target == "/api/v1/nodes/n1"
    selected = Selection(labels="a=b,c", fields="spec.nodeName=n1")
    target = list_plan(PODS, "", selected, "0", 500, "tok/en=").target
    assert target == (
        "/api/v1/pods?labelSelector=a%3Db%2Cc&fieldSelector=spec.nodeName%3Dn1"
        "&resourceVersion=0&limit=500&continue=tok%2Fen%3D"
    )
    watched = parse_qs(urlsplit(watch_plan(PODS, "default", selected, "7", 300.9).target).query)
    assert watched["watch"] == watched["allowWatchBookmarks"] == ["true"]
    assert (watched["timeoutSeconds"], watched["resourceVersion"]) == (["300"], ["7"])
    assert watch_plan(PODS, "", Selection(), "", 0.2).target.endswith("timeoutSeconds=1")
    binding = create_plan(POD_BINDINGS, Binding(), "default", "web")
    assert (binding.method, binding.target) == ("POST", "/api/v1/namespaces/default/pods/web/binding")
    assert create_plan(LEASES, {}, "kube-node-lease", "").path == (
        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    )
    patch = patch_plan(PODS, "web", {"a": 1}, "default", PatchType.STRATEGIC, "status")
    assert patch == RestRequest(
        "PATCH",
        "/api/v1/namespaces/default/pods/web/status",
        b'{"a":1}',
        "application/strategic-merge-patch+json",
    )
    assert patch_plan(NODES, "n", {}, "", PatchType.APPLY, "").target == "/api/v1/nodes/n?fieldManager=pykubelet"
    applied = apply_plan(PODS, {"metadata": {"name": "web"}}, "default", "me")
    assert applied.target == "/api/v1/namespaces/default/pods/web?fieldManager=me&force=true&fieldValidation=Strict"
    assert (applied.method, applied.content_type) == ("PATCH", "application/apply-patch+yaml")
    assert delete_plan(PODS, "web", "default", NOW).body == (
        b'{"apiVersion":"v1","gracePeriodSeconds":0,"kind":"DeleteOptions"}'
    )


@pytest.mark.parametrize("text", [".", "..", "a/b", "a%2fb", "/", "../secrets/x", "\ud800"])
def test_plan_refuses_names_that_are_paths(text: str) -> None:
    with pytest.raises(BadRequest):
        get_plan(PODS, text, "default", "")
    with pytest.raises(BadRequest):
        get_plan(PODS, "web", text, "")
    with pytest.raises(BadRequest):
        list_plan(PODS, text, Selection(), "", 0, "")
    with pytest.raises(BadRequest):
        patch_plan(PODS, "web", {}, "default", PatchType.MERGE, text)


def test_plan_rejects_empty_names_and_namespaces() -> None:
    """Without a name the URL is that of the collection; without a namespace it is a different resource path."""
    with pytest.raises(BadRequest, match="resource name may not be empty"):
        apply_plan(PODS, {}, "default", "me")
    with pytest.raises(BadRequest, match="resource name may not be empty"):
        delete_plan(PODS, "", "default", None)
    with pytest.raises(BadRequest, match="empty namespace"):
        delete_plan(PODS, "web", "", None)
    with pytest.raises(BadRequest, match="empty namespace"):
        create_plan(PODS, {}, "", "")


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(), min_size=1), st.text(min_size=1))
def test_plan_keeps_any_name_within_its_segment(name: str, namespace: str) -> None:
    """Whatever the names contain, the path has the same segments, and they decode to the names."""
    try:
        target = get_plan(PODS, name, namespace, "1").target
    except BadRequest:
        return
    split = urlsplit(target)
    assert split.query == "resourceVersion=1"
    segments = split.path.split("/")
    assert segments[:4] == ["", "api", "v1", "namespaces"]
    assert (unquote(segments[4]), segments[5], unquote(segments[6])) == (namespace, "pods", name)
    assert len(segments) == 7


def test_plan_shows_no_body() -> None:
    """The body may be a Secret."""
    assert "hidden" not in repr(create_plan(PODS, {"x": "hidden"}, "default", ""))


def test_read_list_adds_kind_and_version_to_documents() -> None:
    """The API leaves both out of list items."""
    body = b'{"kind":"PodList","metadata":{"resourceVersion":"5","continue":"c"},"items":[{"metadata":{"name":"a"}}]}'
    listing = read_list(as_documents(PODS), body)
    assert listing.items == ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},)
    assert (listing.resource_version, listing.continue_token) == ("5", "c")
    assert read_list(POD_KIND, body).items[0].metadata.name == "a"
    assert read_list(POD_KIND, b'{"metadata":{},"items":null}').items == ()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"items":7}', b'{"metadata":7}'])
def test_unreadable_answers_are_errors_of_the_server(body: bytes) -> None:
    with pytest.raises(InternalError):
        read_list(POD_KIND, body)
    if body != b'{"items":7}':
        with pytest.raises(InternalError):
            read_object(POD_KIND, body)


@pytest.mark.parametrize(
    ("code", "headers", "body", "kind", "message", "after"),
    [
        (404, {}, b'{"kind":"Status","reason":"NotFound","message":"no"}', NotFound, "no", None),
        (409, {}, b'{"kind":"Status","message":"no"}', Conflict, "no", None),
        (410, {}, b'{"kind":"Status"}', Gone, "the server answered 410", None),
        (429, {"Retry-After": "7"}, b"slow", TooManyRequests, "the server answered 429: slow", 7),
        (503, {"Retry-After": "Wed, 21 Oct"}, b"", ServiceUnavailable, "the server answered 503", None),
        (503, {"Retry-After": "2"}, b'{"kind":"Status","message":"no"}', ServiceUnavailable, "no", 2),
        (500, {}, b'{"kind":"Status","details":{"retryAfterSeconds":3}}', InternalError, "the server answered 500", 3),
        (502, {"Content-Type": "text/html"}, b"<p>" + b"x" * 9000, InternalError, "the server answered 502: <p>", None),
        (502, {"Content-Type": "image/png"}, b"png", InternalError, "the server answered 502", None),
        (302, {}, b"", BadRequest, "the server answered 302", None),
    ],
)
def test_read_error_gives_the_class_message_and_wait(
    code: int, headers: dict[str, str], body: bytes, kind: type, message: str, after: float | None
) -> None:
    error = read_error(code, headers, body)
    assert type(error) is kind
    assert error.message.startswith(message)
    assert len(error.message) < 3000
    assert error.retry_after_seconds == after


def test_only_reads_are_repeated_after_an_unclear_failure() -> None:
    """A write may have taken effect before the server returned 500 or 504."""
    get, post = RestRequest("GET", "/"), RestRequest("POST", "/")
    assert [may_repeat(get, code) for code in (429, 500, 503, 504, 404)] == [True, True, True, True, False]
    assert [may_repeat(post, code) for code in (429, 500, 503, 504, 404)] == [True, False, True, False, False]


def test_metadata_only_reads_request_partial_object_metadata() -> None:
    """A server that does not support it returns full objects."""
    plan = list_plan(PODS, "", Selection(), "", 0, "")
    assert accepting_metadata(plan, POD_KIND, is_list=True) is plan
    forms = [accepting_metadata(plan, metadata_of(PODS), is_list=is_list).accept for is_list in (False, True)]
    rest = ";g=meta.k8s.io;v=v1,application/json"
    assert forms == [f"application/json;as=PartialObjectMetadata{form}{rest}" for form in ("", "List")]


@pytest.mark.parametrize(
    ("headers", "texts"),
    [
        ((), ()),
        (('299 - "be careful"',), ("be careful",)),
        (('299 - "a \\"b\\" \\\\"', "199 - x", "nonsense"), ('a "b" \\',)),
    ],
)
def test_warnings_are_read_from_their_headers(headers: tuple[str, ...], texts: tuple[str, ...]) -> None:
    """Quotes and escapes are removed; malformed headers are skipped."""
    assert read_warnings(headers) == texts
