"""Default roles: what they allow, and how the server creates and reconciles them."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from access_objects import ALICE, RBAC, CountingIds, ask, authorizer, binding, put, remove, role, rule, subject
from pykubelet.api.serializer import Document
from pykubelet.apiserver.authorization.bootstrappolicy import (
    AUTOUPDATE,
    ClusterRoleAggregation,
    aggregated_rules,
    default_roles,
    ensure_default_roles,
    reconciled_role,
)
from pykubelet.apiserver.authorization.rbac import read_rules, uncovered_rules
from pykubelet.apiserver.certs.pki import NAME
from pykubelet.apiserver.request import ANONYMOUS, AuthorizationAttributes, UserInfo
from pykubelet.apiserver.storage.durable_store import DurableStore
from pykubelet.apiserver.storage.interfaces import StoreKey
from pykubelet.testing.virtual_time import VirtualClock

CLUSTER_ROLES = f"clusterroles.{RBAC}"


async def ensure(store: DurableStore) -> None:
    await ensure_default_roles(store, clock=VirtualClock(), ids=CountingIds())


def stored(store: DurableStore, name: str, collection: str = CLUSTER_ROLES) -> Document:
    entry = store.get(StoreKey(collection, "", name))
    assert entry is not None
    return entry.document


@pytest.mark.parametrize(
    ("bound", "review", "allowed"),
    [
        ("view", ask(ALICE, "list", "pods"), True),
        ("view", ask(ALICE, "get", "secrets", "s"), False),
        ("view", ask(ALICE, "create", "pods"), False),
        ("edit", ask(ALICE, "get", "secrets", "s"), True),
        ("edit", ask(ALICE, "list", "pods"), True),
        ("edit", ask(ALICE, "create", "roles", group=RBAC), False),
        ("admin", ask(ALICE, "create", "roles", group=RBAC), True),
        ("admin", ask(ALICE, "list", "pods"), True),
        ("admin", ask(ALICE, "update", "resourcequotas"), False),
        ("cluster-admin", ask(ALICE, "update", "resourcequotas"), True),
    ],
)
async def test_default_role_allows_what_it_should(
    store: DurableStore, bound: str, review: AuthorizationAttributes, *, allowed: bool
) -> None:
    """These are the roles for users; aggregated roles allow all that they aggregate."""
    await ensure(store)
    await put(store, f"clusterrolebindings.{RBAC}", binding("mine", bound, subject("User", "alice")))
    assert authorizer(store).decide(review).allowed is allowed


@pytest.mark.parametrize(
    ("user", "verb", "path", "allowed"),
    [
        (ANONYMOUS, "get", "/healthz", True),
        (ANONYMOUS, "get", "/version", True),
        (ANONYMOUS, "get", "/api", False),
        (ANONYMOUS, "get", "/metrics", False),
        (ALICE, "get", "/apis/apps/v1", True),
        (ALICE, "get", "/openapi/v2", True),
        (UserInfo("p", ("system:monitoring",)), "get", "/metrics", True),
        (ALICE, "get", "/openid/v1/jwks", False),
        (UserInfo("system:serviceaccount:a:b", ("system:serviceaccounts",)), "get", "/openid/v1/jwks", True),
    ],
)
async def test_default_roles_open_paths_to_the_right_users(
    store: DurableStore, user: UserInfo, verb: str, path: str, *, allowed: bool
) -> None:
    """Health and version are open to all users, discovery to authenticated ones."""
    await ensure(store)
    assert authorizer(store).decide(AuthorizationAttributes(user=user, verb=verb, path=path)).allowed is allowed


async def test_server_identity_may_only_proxy_to_nodes(store: DurableStore) -> None:
    """A node that gives the server's own address as its own gains no access to the server's API."""
    await ensure(store)
    server = UserInfo(NAME)
    decide = authorizer(store).decide
    assert all(decide(ask(server, verb, "nodes/proxy", "n1")).allowed for verb in ("get", "create"))
    assert not any(decide(ask(server, verb, "secrets", "s")).allowed for verb in ("get", "list", "create"))
    assert not decide(ask(server, "impersonate", "users", "admin")).allowed


async def test_controllers_have_their_own_rights(store: DurableStore) -> None:
    """They come through the service account in kube-system and allow nothing else."""
    await ensure(store)
    account = UserInfo("system:serviceaccount:kube-system:replicaset-controller", ("system:serviceaccounts",))
    decide = authorizer(store).decide
    assert decide(ask(account, "create", "pods")).allowed
    assert not decide(ask(account, "create", "secrets")).allowed


async def test_second_start_writes_nothing(store: DurableStore) -> None:
    """It leaves the 133 default objects unchanged."""
    await ensure(store)
    revision = store.revision
    assert len(default_roles()) == 133
    assert revision >= len(default_roles())
    await ensure(store)
    assert store.revision == revision
    created = stored(store, "system:node")["metadata"]
    assert created["uid"]
    assert created["annotations"] == {AUTOUPDATE: "true"}


async def test_start_restores_missing_rules_and_keeps_added_ones(store: DurableStore) -> None:
    """A role that opts out stays as it is; a binding with another roleRef is replaced by a new object."""
    await ensure(store)
    basic = stored(store, "system:basic-user")
    mine = rule("get", "things")
    await put(store, CLUSTER_ROLES, basic | {"rules": [mine], "metadata": basic["metadata"] | {"labels": {"a": "b"}}})
    opted = stored(store, "system:discovery") | {"rules": []}
    opted["metadata"]["annotations"] = {AUTOUPDATE: "false"}
    await put(store, CLUSTER_ROLES, opted)
    bindings = f"clusterrolebindings.{RBAC}"
    await put(store, bindings, binding("system:basic-user", "other", subject("User", "x")))
    await put(store, bindings, stored(store, "system:discovery", bindings) | {"subjects": [subject("User", "x")]})
    await ensure(store)
    repaired = stored(store, "system:basic-user")
    assert repaired["rules"][0] == mine
    assert uncovered_rules(read_rules(repaired["rules"]), read_rules(basic["rules"])) == []
    assert repaired["metadata"]["labels"] == {"a": "b", "kubernetes.io/bootstrapping": "rbac-defaults"}
    assert stored(store, "system:discovery")["rules"] == []
    assert stored(store, "system:basic-user", bindings)["roleRef"]["name"] == "system:basic-user"
    subjects = [one["name"] for one in stored(store, "system:discovery", bindings)["subjects"]]
    assert subjects == ["x", "system:authenticated"]


async def test_aggregated_roles_follow_changes(store: DurableStore) -> None:
    """A role with the label joins view, edit and admin, and leaves them when it is deleted."""
    await ensure(store)
    ready = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(ClusterRoleAggregation(store).run(ready))
        await ready.wait()
        labels = {"labels": {f"{RBAC}/aggregate-to-view": "true"}}
        extra = rule("get", "widgets", groups=["example.com"])
        await put(store, CLUSTER_ROLES, role("widgets", extra, metadata=labels))
        await asyncio.sleep(1)
        assert all(extra in stored(store, name)["rules"] for name in ("view", "edit", "admin"))
        await remove(store, CLUSTER_ROLES, "", "widgets")
        await asyncio.sleep(1)
        assert not any(extra in stored(store, name)["rules"] for name in ("view", "edit", "admin"))
        task.cancel()


def test_reconciling_restores_aggregation_selectors() -> None:
    """A user's own selectors stay; a default role without aggregation loses its aggregation rule."""
    own = {"matchLabels": {"mine": "yes"}}
    roles = {key.name: document for key, document in default_roles() if key.collection == CLUSTER_ROLES}
    changed = roles["view"] | {"aggregationRule": {"clusterRoleSelectors": [own]}}
    wanted = roles["view"]["aggregationRule"]["clusterRoleSelectors"]
    assert reconciled_role(changed, roles["view"])["aggregationRule"]["clusterRoleSelectors"] == [own, *wanted]
    basic = roles["system:basic-user"]
    assert reconciled_role(basic | {"aggregationRule": {"clusterRoleSelectors": [own]}}, basic) == basic


def test_roles_that_aggregate_each_other_settle() -> None:
    """An invalid selector matches no role."""

    def gathers(name: str, own: str, wanted: Document) -> Document:
        selectors = {"clusterRoleSelectors": [wanted]}
        return role(name, rule("get", name), metadata={"labels": {own: "y"}}, aggregationRule=selectors)

    circle = [gathers("a", "a", {"matchLabels": {"b": "y"}}), gathers("b", "b", {"matchLabels": {"a": "y"}})]
    found = aggregated_rules(circle)
    after = [one | {"rules": found.get(one["metadata"]["name"], one["rules"])} for one in circle]
    assert aggregated_rules(after) == {}
    broken = gathers("c", "c", {"matchExpressions": [{"key": "x", "operator": "Nonsense"}]})
    assert aggregated_rules([broken]) == {"c": []}


DEFAULTS = [document for _, document in default_roles()]


@settings(max_examples=60)
@given(st.sampled_from(DEFAULTS), st.data())
def test_reconciling_is_complete_and_settles(expected: Document, data: st.DataObject) -> None:
    """One round restores whatever a user removed, and a second one changes nothing."""
    field = "subjects" if "roleRef" in expected else "rules"
    kept = data.draw(st.lists(st.sampled_from(expected.get(field) or [{}]), unique_by=str).map(list))
    existing = expected | {field: [one for one in kept if one]}
    existing["metadata"] = expected["metadata"] | {"labels": data.draw(st.sampled_from(({}, {"mine": "yes"})))}
    once = reconciled_role(existing, expected)
    assert reconciled_role(once, expected) == once
    if field == "rules":
        assert uncovered_rules(read_rules(once["rules"]), read_rules(expected["rules"])) == []
    else:
        assert all(one in once[field] for one in expected.get(field, ()))
