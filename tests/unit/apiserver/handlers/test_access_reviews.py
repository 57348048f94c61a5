"""Access and token reviews: their answers, and the errors of invalid ones."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from access_objects import ADMIN, ALICE, NODE, RBAC, CountingIds, authorizer, binding, post, put, role, rule, subject
from pykubelet.api.errors import ApiError
from pykubelet.api.serializer import Document
from pykubelet.apiserver.authentication.authenticator import Authenticator
from pykubelet.apiserver.authentication.serviceaccount import ISSUER, ServiceAccountTokens
from pykubelet.apiserver.authentication.tokenfile import read_token_file
from pykubelet.apiserver.certs.certificates import new_key
from pykubelet.apiserver.handlers.access_reviews import AccessReviews, access_review_errors, access_review_spec
from pykubelet.apiserver.request import ApiResponse, UserInfo
from pykubelet.apiserver.storage.durable_store import DurableStore
from pykubelet.testing.virtual_time import ManualClock

KEY = new_key()
STATIC = read_token_file("secret,bob,7,g1\n", "f")
AUTHENTICATION, AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"


@pytest.fixture
async def reviews(store: DurableStore) -> AccessReviews:
    await put(store, f"clusterroles.{RBAC}", role("reader", rule("get", "pods"), rule("get", paths="/x/*")))
    everywhere = binding("b", "reader", subject("User", "alice"))
    await put(store, f"clusterrolebindings.{RBAC}", everywhere)
    clock = ManualClock()
    tokens = ServiceAccountTokens(KEY, store.get, clock=clock, ids=CountingIds())
    return AccessReviews(Authenticator(tokens, clock=clock, static=STATIC), authorizer(store), clock)


async def sent(
    reviews: AccessReviews, user: UserInfo, kind: str, spec: Document | None, *, namespace: str = "", **metadata: str
) -> ApiResponse:
    group = AUTHENTICATION if kind in {"SelfSubjectReview", "TokenReview"} else AUTHORIZATION
    resource = f"{kind.lower()}s.{group}"
    body: Document = {"kind": kind, "apiVersion": f"{group}/v1", "metadata": metadata}
    call = post(user, resource, body | ({} if spec is None else {"spec": spec}), namespace=namespace)
    return await reviews.handlers()[resource, ""](call)


def about(verb: str, resource: str, **more: Any) -> Document:
    return {"resourceAttributes": {"verb": verb, "resource": resource, **more}}


SOURCE = 'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "reader" to User "alice"'


@pytest.mark.parametrize(
    ("kind", "user", "spec", "status"),
    [
        ("SelfSubjectAccessReview", ALICE, about("get", "pods"), {"allowed": True, "reason": SOURCE}),
        ("SelfSubjectAccessReview", ALICE, about("list", "pods"), {"allowed": False}),
        ("SelfSubjectAccessReview", ADMIN, about("*", "*", group="*"), {"allowed": True}),
        (
            "SelfSubjectAccessReview",
            ALICE,
            {"nonResourceAttributes": {"path": "/x/y", "verb": "get"}},
            {"allowed": True, "reason": SOURCE},
        ),
        ("SubjectAccessReview", ADMIN, about("get", "pods") | {"user": "alice"}, {"allowed": True, "reason": SOURCE}),
        ("SubjectAccessReview", ADMIN, about("get", "pods") | {"user": "eve"}, {"allowed": False}),
        ("SubjectAccessReview", ADMIN, about("get", "pods") | {"groups": ["system:masters"]}, {"allowed": True}),
        (
            "SubjectAccessReview",
            ADMIN,
            about("get", "nodes", name="n2") | {"user": "system:node:n1", "groups": ["system:nodes"]},
            {"allowed": False, "reason": "node 'n1' cannot read 'n2', only its own Node object"},
        ),
        (
            "SelfSubjectAccessReview",
            NODE,
            about(
                "list",
                "pods",
                fieldSelector={"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1"]}]},
            ),
            {"allowed": True},
        ),
        (
            "SelfSubjectAccessReview",
            NODE,
            about("list", "pods", fieldSelector={"rawSelector": "spec.nodeName=n1"}),
            {"allowed": True},
        ),
        (
            "SelfSubjectAccessReview",
            ADMIN,
            about("get", "pods", fieldSelector={"rawSelector": "x"}, labelSelector={"rawSelector": "a in"}),
            {
                "allowed": True,
                "evaluationError": "spec.resourceAttributes.fieldSelector ignored due to parse error; "
                "spec.resourceAttributes.labelSelector ignored due to parse error",
            },
        ),
    ],
)
async def test_access_review_is_answered(
    reviews: AccessReviews, kind: str, user: UserInfo, spec: Document, status: Document
) -> None:
    """The answer repeats the spec and adds the status; empty fields are left out as upstream does."""
    answer = await sent(reviews, user, kind, spec)
    assert answer.code == 201
    assert answer.document == {
        "kind": kind,
        "apiVersion": f"{AUTHORIZATION}/v1",
        "metadata": {},
        "spec": spec,
        "status": status,
    }


async def test_local_review_is_about_its_namespace(reviews: AccessReviews) -> None:
    """An absent namespace in the body defaults to the path's."""
    spec = about("get", "pods", namespace="ns") | {"user": "alice"}
    answer = await sent(reviews, ADMIN, "LocalSubjectAccessReview", spec, namespace="ns")
    assert answer.document["status"]["allowed"]
    assert answer.document["metadata"] == {"namespace": "ns"}
    body = {"metadata": {"namespace": "other"}, "spec": spec}
    with pytest.raises(ApiError, match="the namespace of the provided object does not match"):
        await reviews.access(post(ADMIN, f"localsubjectaccessreviews.{AUTHORIZATION}", body, namespace="ns"))


@pytest.mark.parametrize(
    ("kind", "spec", "metadata", "problem"),
    [
        (
            "SelfSubjectAccessReview",
            {},
            {},
            (
                "spec.resourceAttributes: Invalid value: null: "
                "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            ),
        ),
        (
            "SelfSubjectAccessReview",
            about("get", "pods") | {"nonResourceAttributes": {"path": "/", "verb": "get"}},
            {},
            (
                'spec.nonResourceAttributes: Invalid value: {"Path":"/","Verb":"get"}: '
                "cannot be specified in combination with resourceAttributes"
            ),
        ),
        (
            "SubjectAccessReview",
            about("get", "pods"),
            {},
            'spec.user: Invalid value: "": at least one of user or group must be specified',
        ),
        (
            "SelfSubjectAccessReview",
            about("get", "pods"),
            {"name": "x"},
            'metadata: Invalid value: {"name":"x"}: must be empty',
        ),
        (
            "LocalSubjectAccessReview",
            about("get", "pods", namespace="other") | {"user": "x"},
            {},
            'spec.resourceAttributes.namespace: Invalid value: "other": must match metadata.namespace',
        ),
        (
            "SelfSubjectAccessReview",
            about("get", "pods", fieldSelector={}),
            {},
            (
                "spec.resourceAttributes.fieldSelector.requirements: Required value: when "
                "spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required"
            ),
        ),
        (
            "SelfSubjectAccessReview",
            about("get", "pods", labelSelector={"requirements": [{"key": "a", "operator": "In"}]}),
            {},
            (
                "spec.resourceAttributes.labelSelector.requirements[0].values: Required value: "
                "must be specified when `operator` is 'In' or 'NotIn'"
            ),
        ),
    ],
    ids=["nothing", "both", "nobody", "metadata", "namespace", "selector", "requirement"],
)
async def test_bad_access_review_is_invalid(
    reviews: AccessReviews, kind: str, spec: Document, metadata: dict[str, str], problem: str
) -> None:
    """The message has upstream's field errors and, like upstream's, no kind."""
    namespace = "ns" if kind == "LocalSubjectAccessReview" else ""
    with pytest.raises(ApiError) as caught:
        await sent(reviews, ADMIN, kind, spec, namespace=namespace, **metadata)
    assert (caught.value.code, caught.value.message) == (422, f'.{AUTHORIZATION} "" is invalid: {problem}')


async def test_rules_review_lists_the_rules(reviews: AccessReviews) -> None:
    """They are rules for resources and for paths; the list of a node is marked incomplete."""
    answer = await sent(reviews, ALICE, "SelfSubjectRulesReview", {"namespace": "ns"})
    assert answer.document["spec"] == {}
    assert answer.document["status"] == {
        "resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/x/*"]}],
        "incomplete": False,
    }
    of_node = await sent(reviews, NODE, "SelfSubjectRulesReview", {"namespace": "ns"})
    assert of_node.document["status"] == {
        "resourceRules": [],
        "nonResourceRules": [],
        "incomplete": True,
        "evaluationError": "node authorizer does not support user rule resolution",
    }
    with pytest.raises(ApiError, match="no namespace on request"):
        await sent(reviews, ALICE, "SelfSubjectRulesReview", {})


async def test_self_subject_review_returns_the_user(reviews: AccessReviews) -> None:
    """This is what `kubectl auth whoami` shows."""
    user = UserInfo("alice", ("g",), "7", {"k": ("v",)})
    answer = await sent(reviews, user, "SelfSubjectReview", None)
    assert answer.document == {
        "kind": "SelfSubjectReview",
        "apiVersion": f"{AUTHENTICATION}/v1",
        "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"userInfo": {"username": "alice", "uid": "7", "groups": ["g"], "extra": {"k": ["v"]}}},
    }


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        (
            {"token": "secret"},
            {
                "authenticated": True,
                "user": {"username": "bob", "uid": "7", "groups": ["g1", "system:authenticated"]},
                "audiences": [ISSUER],
            },
        ),
        ({"token": "wrong"}, {"user": {}, "error": "invalid bearer token"}),
        ({"token": "secret", "audiences": ["vault"]}, {"user": {}, "error": "invalid bearer token"}),
    ],
    ids=["known", "unknown", "another audience"],
)
async def test_token_review_returns_its_user(reviews: AccessReviews, spec: Document, status: Document) -> None:
    """Any other token gives an error and no user."""
    answer = await sent(reviews, ADMIN, "TokenReview", spec)
    assert (answer.document["spec"], answer.document["status"]) == (spec, status)


async def test_token_review_without_a_token_is_refused(reviews: AccessReviews) -> None:
    """The message is upstream's."""
    with pytest.raises(ApiError, match="token is required for TokenReview in authentication"):
        await sent(reviews, ADMIN, "TokenReview", {})


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"spec":[]}', b'{"spec":{"resourceAttributes":7}}', b"\xff"]
)
async def test_bad_body_is_a_client_error(reviews: AccessReviews, body: bytes) -> None:
    """The error is 400 or 422, never a crash."""
    with pytest.raises(ApiError) as caught:
        await reviews.access(post(ADMIN, f"selfsubjectaccessreviews.{AUTHORIZATION}", body))
    assert caught.value.code in {400, 422}


@pytest.mark.parametrize(
    ("field", "requirements", "text", "problem"),
    [
        ("labelSelector", [("a", "In", ["x", "y"]), ("b", "Exists", [])], "a in (x,y),b", ""),
        ("labelSelector", [("a", "NotIn", ["x"]), ("b", "Near", [])], "a notin (x)", "partially ignored"),
        ("labelSelector", [("b", "Near", [])], "", "ignored"),
        ("fieldSelector", [("a", "In", ["x,y"]), ("b", "NotIn", ["z"])], r"a=x\,y,b!=z", ""),
        ("fieldSelector", [("a", "In", ["x", "y"]), ("b", "NotIn", ["z"])], "b!=z", "partially ignored"),
        ("fieldSelector", [("a", "Exists", [])], "", "ignored"),
    ],
)
def test_requirements_become_a_selector(
    field: str, requirements: list[tuple[str, str, list[str]]], text: str, problem: str
) -> None:
    """Unknown operators are ignored, and the problem is reported."""
    given_ones = [{"key": key, "operator": operator, "values": values} for key, operator, values in requirements]
    spec = about("list", "pods", **{field: {"requirements": given_ones}})
    assert access_review_errors({"metadata": {}, "spec": spec}, "SelfSubjectAccessReview") == []
    asked = access_review_spec(ALICE, spec)
    assert (asked.review.labels if field == "labelSelector" else asked.review.fields) == text
    expected = f"spec.resourceAttributes.{field} {problem} due to parse error" if problem else ""
    assert asked.problem == expected


REQUIREMENTS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "key": st.sampled_from(("", "a", "b/c", "!")),
            "operator": st.sampled_from(("", "In", "NotIn", "Exists", "DoesNotExist", "Near")),
            "values": st.lists(st.sampled_from(("", "x", "?")), max_size=2),
        },
    ),
    max_size=3,
)
SELECTORS = st.fixed_dictionaries({}, optional={"rawSelector": st.text(max_size=5), "requirements": REQUIREMENTS})
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "resourceAttributes": st.fixed_dictionaries(
            {}, optional={"fieldSelector": SELECTORS, "labelSelector": SELECTORS}
        ),
        "nonResourceAttributes": st.fixed_dictionaries({}, optional={"path": st.text(max_size=3)}),
        "user": st.text(max_size=2),
    },
)


@settings(max_examples=200)
@given(SPECS, st.sampled_from(("SelfSubjectAccessReview", "SubjectAccessReview", "LocalSubjectAccessReview")))
def test_valid_review_can_be_decided(spec: Document, kind: str) -> None:
    """It reports whether a selector was ignored."""
    document = {"metadata": {}, "spec": spec}
    if not access_review_errors(document, kind):
        asked = access_review_spec(ALICE, spec)
        assert asked.review.user is ALICE
        assert asked.problem == "" or "ignored due to parse error" in asked.problem
