"""Request info: verb, resource and object of a request, and whether the resource is served."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.errors import ApiError
from pykubelet.apiserver.filters.requestinfo import RequestInfo, request_info, served_at
from pykubelet.apiserver.registry import BUILT_IN_KINDS, ServedKinds

REGISTRY = ServedKinds(BUILT_IN_KINDS)


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/api/v1/pods", {}, ("list", "", "pods", "", "", "")),
        ("GET", "/api/v1/pods/", {"watch": "1"}, ("watch", "", "pods", "", "", "")),
        ("GET", "/api/v1/pods", {"watch": "False"}, ("list", "", "pods", "", "", "")),
        ("GET", "/api/v1/namespaces/x/pods/a", {}, ("get", "", "pods", "x", "a", "")),
        ("HEAD", "/api/v1/namespaces/x/pods/a", {}, ("get", "", "pods", "x", "a", "")),
        ("PUT", "/api/v1/namespaces/x/pods/a/status", {}, ("update", "", "pods", "x", "a", "status")),
        ("POST", "/api/v1/namespaces", {}, ("create", "", "namespaces", "", "", "")),
        ("DELETE", "/api/v1/namespaces/x", {}, ("delete", "", "namespaces", "x", "x", "")),
        ("PUT", "/api/v1/namespaces/x/finalize", {}, ("update", "", "namespaces", "x", "x", "finalize")),
        (
            "PATCH",
            "/apis/apps/v1/namespaces/x/deployments/d/scale",
            {},
            ("patch", "apps", "deployments", "x", "d", "scale"),
        ),
        (
            "DELETE",
            "/apis/apps/v1/namespaces/x/deployments",
            {},
            ("deletecollection", "apps", "deployments", "x", "", ""),
        ),
        ("GET", "/api/v1/watch/namespaces/x/pods/a", {}, ("watch", "", "pods", "x", "a", "")),
        ("GET", "/api/v1/pods", {"fieldSelector": "metadata.name=a"}, ("list", "", "pods", "", "a", "")),
        ("GET", "/api/v1/pods", {"fieldSelector": "metadata.name=a/b"}, ("list", "", "pods", "", "", "")),
        ("GET", "/api/v1/pods", {"fieldSelector": "metadata.name"}, ("list", "", "pods", "", "", "")),
        ("TRACE", "/api/v1/pods", {}, ("", "", "pods", "", "", "")),
    ],
)
def test_route_names_verb_and_object(method: str, path: str, query: dict[str, str], expected: tuple[str, ...]) -> None:
    """They are those that kube-apiserver's authorization uses."""
    found = request_info(method, path, query)
    assert found is not None
    assert (found.verb, found.group, found.plural, found.namespace, found.name, found.subresource) == expected


@pytest.mark.parametrize(
    "path", ["/", "", "/api", "/api/v1", "/apis/apps/v1", "/healthz", "/version/x/y", "/api/v1/watch"]
)
def test_other_paths_name_no_resource(path: str) -> None:
    """Discovery and health are not about objects."""
    assert request_info("GET", path, {}) is None


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/widgets", 404),
        ("GET", "/api/v2/pods", 404),
        ("GET", "/api/v1/pods/a", 404),
        ("GET", "/api/v1/namespaces/x/nodes", 404),
        ("GET", "/api/v1/namespaces/x/pods/a/nope", 404),
        ("GET", "/api/v1/proxy/namespaces/x/pods/a", 405),
        ("POST", "/api/v1/pods", 405),
        ("DELETE", "/api/v1/pods", 405),
        ("PUT", "/api/v1/namespaces/x/pods", 405),
        ("POST", "/api/v1/namespaces/x/pods/a", 405),
        ("DELETE", "/api/v1/namespaces", 405),
        ("DELETE", "/api/v1/namespaces/x/pods/a/status", 405),
        ("PUT", "/api/v1/namespaces/x/pods/a/status/more", 405),
        ("TRACE", "/api/v1/pods", 405),
        ("GET", "/apis/authorization.k8s.io/v1/subjectaccessreviews", 405),
    ],
)
def test_unserved_path_gives_404_and_unserved_method_405(method: str, path: str, code: int) -> None:
    """The Status has no details."""
    found = request_info(method, path, {})
    assert found is not None
    with pytest.raises(ApiError) as refused:
        served_at(found, REGISTRY.find)
    assert (refused.value.code, refused.value.to_status()["details"]) == (code, {})


@given(
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "X"]),
    path=st.lists(
        st.sampled_from(
            ["api", "apis", "v1", "apps", "namespaces", "pods", "deployments", "nodes", "status", "watch", "", "x"]
        )
        | st.text(max_size=5),
        max_size=9,
    ).map("/".join),
    query=st.dictionaries(st.sampled_from(["watch", "fieldSelector", "labelSelector"]), st.text(max_size=20)),
)
def test_every_path_is_routed_or_refused(method: str, path: str, query: dict[str, str]) -> None:
    """Parsing gives request info or None, and looking up the resource raises only 404 or 405."""
    found = request_info(method, f"/{path}", query)
    assert found is None or isinstance(found, RequestInfo)
    if found is None:
        return
    plural, code = found.plural, 404
    try:
        plural = served_at(found, REGISTRY.find).resource.plural
    except ApiError as error:
        code = error.code
    assert plural == found.plural
    assert code in (404, 405)


def test_registry_follows_what_is_served() -> None:
    """Kinds can be added and removed; removing a missing kind does not change the generation."""
    registry = ServedKinds(BUILT_IN_KINDS)
    before = registry.generation
    row = registry.find("apps", "v1", "deployments")
    assert row is not None
    assert registry.of_collection("deployments.apps") is row
    registry.remove("apps", "v1", "deployments")
    registry.remove("apps", "v1", "deployments")
    assert (registry.find("apps", "v1", "deployments"), registry.of_collection("deployments.apps")) == (None, None)
    assert registry.generation == before + 1
    registry.add(row)
    assert registry.all()[-1] is row
