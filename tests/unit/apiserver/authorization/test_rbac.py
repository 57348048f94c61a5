"""RBAC: the index of bindings compared with a plain search, and decisions on a store."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from access_objects import ADMIN, ALICE, RBAC, ask, authorizer, binding, put, remove, role, rule, subject
from pykubelet.api.serializer import Document
from pykubelet.apiserver.authorization.authorizer import forbidden_error
from pykubelet.apiserver.authorization.rbac import BindingIndex, RbacAuthorizer, read_rules
from pykubelet.apiserver.request import AuthorizationAttributes, AuthorizationDecision, UserInfo
from pykubelet.apiserver.storage.durable_store import DurableStore
from pykubelet.apiserver.storage.interfaces import StoreKey

ROLES, CLUSTER_ROLES = f"roles.{RBAC}", f"clusterroles.{RBAC}"
BINDINGS, CLUSTER_BINDINGS = f"rolebindings.{RBAC}", f"clusterrolebindings.{RBAC}"
ACCOUNT = UserInfo("system:serviceaccount:ns:bot", ("system:serviceaccounts",))
USERS = (ALICE, ACCOUNT, UserInfo("bob", ("g1", "g2")))
SUBJECTS = (
    subject("User", "alice"),
    subject("User", "bob"),
    subject("Group", "g2"),
    subject("ServiceAccount", "bot"),
    subject("ServiceAccount", "bot", "ns"),
    subject("ServiceAccount", "bot", "other"),
)
NAMES = ("a", "b")


@st.composite
def changes(draw: st.DrawFn) -> tuple[StoreKey, Document | None]:
    """A write or deletion of one role or binding."""
    name, namespace = draw(st.sampled_from(NAMES)), draw(st.sampled_from(("", "ns", "other")))
    if draw(st.booleans()):
        verbs = draw(st.sampled_from(("get", "list")))
        document = role(name, rule(verbs, "pods"), namespace=namespace)
        collection = ROLES if namespace else CLUSTER_ROLES
    else:
        subjects = draw(st.lists(st.sampled_from(SUBJECTS), max_size=3))
        kind = draw(st.sampled_from(("Role", "ClusterRole"))) if namespace else "ClusterRole"
        target = draw(st.sampled_from(NAMES))
        document = binding(name, target, *subjects, namespace=namespace, role_kind=kind)
        collection = BINDINGS if namespace else CLUSTER_BINDINGS
    gone = draw(st.integers(0, 3)) == 0
    return StoreKey(collection, namespace, name), None if gone else document


def naive_is_bound(user: UserInfo, one: Document, namespace: str) -> bool:
    for each in one["subjects"]:
        kind, name = each["kind"], each["name"]
        where = each.get("namespace") or namespace
        if (kind == "User" and name == user.name) or (kind == "Group" and name in user.groups):
            return True
        if kind == "ServiceAccount" and where and user.name == f"system:serviceaccount:{where}:{name}":
            return True
    return False


def naive_allows(objects: Mapping[StoreKey, Document], review: AuthorizationAttributes) -> bool:
    """Searches all bindings in turn."""
    for key, one in objects.items():
        if key.collection not in (BINDINGS, CLUSTER_BINDINGS) or key.namespace not in ("", review.namespace):
            continue
        if not naive_is_bound(review.user, one, key.namespace):
            continue
        reference = one["roleRef"]
        is_role = reference["kind"] == "Role"
        found = objects.get(
            StoreKey(ROLES if is_role else CLUSTER_ROLES, key.namespace if is_role else "", reference["name"])
        )
        if found and any(each.allows(review) for each in read_rules(found["rules"])):
            return True
    return False


@settings(max_examples=150)
@given(st.lists(changes(), max_size=12))
def test_index_gives_the_grants_a_plain_search_finds(history: list[tuple[StoreKey, Document | None]]) -> None:
    """This holds after any history, for any user and namespace."""
    index, objects = BindingIndex(), dict[StoreKey, Document]()
    for key, document in history:
        index.apply(key, document)
        objects.pop(key, None)
        if document is not None:
            objects[key] = document
    for user in USERS:
        for namespace in ("", "ns", "other"):
            for verb in ("get", "list"):
                review = ask(user, verb, "pods", namespace=namespace)
                found = any(one.allows(review) for grant in index.grants(user, namespace) for one in grant.rules)
                assert found == naive_allows(objects, review)


async def test_role_is_in_force_for_the_request_after_its_write(store: DurableStore) -> None:
    """Each decision reflects the write before it, also if the last decision was cached."""
    rbac = RbacAuthorizer(store)
    review = ask(ALICE, "get", "pods")
    assert not rbac.decide(review).allowed
    await put(store, CLUSTER_ROLES, role("reader", rule("get", "pods")))
    await put(
        store, BINDINGS, binding("b", "reader", subject("User", "alice"), namespace="ns", role_kind="ClusterRole")
    )
    decision = rbac.decide(review)
    assert decision.allowed
    assert decision.reason == 'RBAC: allowed by RoleBinding "b/ns" of ClusterRole "reader" to User "alice"'
    assert not rbac.decide(ask(ALICE, "get", "pods", namespace="other")).allowed
    await put(store, CLUSTER_ROLES, role("reader", rule("list", "pods")))
    assert not rbac.decide(review).allowed
    await put(store, CLUSTER_ROLES, role("reader", rule("get", "pods")))
    assert rbac.decide(review).allowed
    await remove(store, BINDINGS, "ns", "b")
    assert not rbac.decide(review).allowed


async def test_objects_of_an_earlier_run_count(store: DurableStore) -> None:
    """The authorizer reads the objects that are in the store when it is created."""
    await put(store, CLUSTER_ROLES, role("reader", rule("get", "pods")))
    await put(store, CLUSTER_BINDINGS, binding("all", "reader", subject("Group", "system:authenticated")))
    decision = RbacAuthorizer(store).decide(ask(ALICE, "get", "pods", namespace=""))
    assert decision.reason == (
        'RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "reader" to Group "system:authenticated"'
    )


async def test_refusal_names_missing_roles(store: DurableStore) -> None:
    """Each role is named once, in upstream's words."""
    await put(store, CLUSTER_BINDINGS, binding("x", "gone", subject("User", "alice")))
    await put(store, CLUSTER_BINDINGS, binding("y", "gone", subject("User", "alice")))
    rbac = RbacAuthorizer(store)
    assert rbac.decide(ask(ALICE, "get", "pods")).reason == f'RBAC: clusterrole.{RBAC} "gone" not found'
    await put(store, BINDINGS, binding("z", "lost", subject("User", "alice"), namespace="ns"))
    decision = rbac.decide(ask(ALICE, "get", "pods", "p"))
    assert decision.reason == f'RBAC: [clusterrole.{RBAC} "gone" not found, role.{RBAC} "lost" not found]'
    error = forbidden_error(ask(ALICE, "get", "pods", "p"), decision)
    assert error.message == (
        f'pods "p" is forbidden: User "alice" cannot get resource "pods" in API group "" in the namespace "ns": '
        f"{decision.reason}"
    )


async def test_binding_to_no_kind_of_role_grants_nothing(store: DurableStore) -> None:
    """Another program may have stored one; a subject that is listed twice counts once."""
    alice = subject("User", "alice")
    await put(store, CLUSTER_BINDINGS, binding("x", "r", alice, alice, subject("Robot", "r"), role_kind="Rule"))
    rbac = RbacAuthorizer(store)
    assert rbac.decide(ask(ALICE, "get", "pods")).reason == 'RBAC: unsupported role reference kind: "Rule"'
    await remove(store, CLUSTER_BINDINGS, "", "x")
    assert rbac.decide(ask(ALICE, "get", "pods")).reason == ""


async def test_masters_may_do_everything(store: DurableStore) -> None:
    """No role has to allow it, and the store may be empty."""
    assert authorizer(store).decide(ask(ADMIN, "invent", "things", group="example.com")).allowed
    assert authorizer(store).decide(AuthorizationAttributes(user=ADMIN, verb="get", path="/secret")).allowed


@pytest.mark.parametrize(
    ("review", "message", "details"),
    [
        (
            ask(ALICE, "list", "deployments/scale", group="apps", namespace=""),
            (
                'deployments.apps is forbidden: User "alice" cannot list resource "deployments/scale" in API group "apps" '
                "at the cluster scope"
            ),
            {"group": "apps", "kind": "deployments"},
        ),
        (
            AuthorizationAttributes(user=UserInfo("<b>"), verb="get", path="/a&b"),
            'forbidden: User "&lt;b&gt;" cannot get path "/a&amp;b"',
            {},
        ),
    ],
    ids=["resource", "path"],
)
def test_refusal_has_upstreams_message(review: AuthorizationAttributes, message: str, details: Document) -> None:
    """Names are escaped for HTML."""
    error = forbidden_error(review, AuthorizationDecision(allowed=False))
    assert (error.message, error.to_status()["details"]) == (message, details)
