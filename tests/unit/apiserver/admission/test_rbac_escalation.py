"""RBAC escalation check: users grant only rights that they hold."""

import pytest

from access_objects import ADMIN, ALICE, RBAC, authorizer, binding, put, request, role, rule, subject
from pykubelet.api.errors import ApiError
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.admission.rbac_escalation import RbacEscalation
from pykubelet.apiserver.storage.durable_store import DurableStore

ROLES, CLUSTER_ROLES = f"roles.{RBAC}", f"clusterroles.{RBAC}"
BINDINGS, CLUSTER_BINDINGS = f"rolebindings.{RBAC}", f"clusterrolebindings.{RBAC}"
TITLE = 'user "alice" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:'
SECRETS = '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}'
GATHERING = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}


@pytest.fixture
async def check(store: DurableStore) -> RbacEscalation:
    """Alice reads pods in ns, may bind `bindable`, and may escalate the role `mine`."""
    await put(
        store,
        CLUSTER_ROLES,
        role(
            "alice",
            rule("get list", "pods"),
            rule("bind", "clusterroles", groups=[RBAC], names="bindable"),
            rule("escalate", "roles", groups=[RBAC], names="mine"),
        ),
    )
    await put(store, CLUSTER_ROLES, role("bindable", rule("*", "*", groups=["*"])))
    await put(store, CLUSTER_ROLES, role("pods", rule("get", "pods")))
    await put(store, CLUSTER_ROLES, role("secrets", rule("get list", "secrets")))
    await put(
        store, BINDINGS, binding("alice", "alice", subject("User", "alice"), namespace="ns", role_kind="ClusterRole")
    )
    return RbacEscalation(authorizer(store))


def bound(role_name: str, kind: str = "ClusterRole") -> Document:
    return binding("b", role_name, subject("User", "eve"), namespace="ns", role_kind=kind)


OLD = role("r", rule("get list", "secrets"), namespace="ns")


@pytest.mark.parametrize(
    ("asked", "new", "old"),
    [
        pytest.param(
            request(ALICE, "create", ROLES, "r"), role("r", rule("get", "pods"), namespace="ns"), None, id="held"
        ),
        pytest.param(
            request(ALICE, "create", ROLES, "r"),
            role("r", rule("get", "pods", names="x"), namespace="ns"),
            None,
            id="narrower",
        ),
        pytest.param(
            request(ALICE, "update", ROLES, "mine"),
            role("mine", rule("*", "*", groups=["*"]), namespace="ns"),
            role("mine", namespace="ns"),
            id="may escalate",
        ),
        pytest.param(
            request(ALICE, "update", ROLES, "r"),
            OLD | {"metadata": OLD["metadata"] | {"finalizers": ["x"]}},
            OLD,
            id="only for the garbage collector",
        ),
        pytest.param(request(ALICE, "create", BINDINGS, "b"), bound("pods"), None, id="binds what it holds"),
        pytest.param(request(ALICE, "create", BINDINGS, "b"), bound("bindable"), None, id="may bind"),
        pytest.param(
            request(ALICE, "create", BINDINGS, "b"), bound("x", "Nonsense"), None, id="for validation to refuse"
        ),
        pytest.param(request(ADMIN, "create", BINDINGS, "b"), bound("secrets"), None, id="master"),
        pytest.param(request(ALICE, "delete", ROLES, "r"), None, OLD, id="delete"),
        pytest.param(request(ALICE, "create", "pods", "p"), {"metadata": {}}, None, id="another kind"),
    ],
)
async def test_grant_passes(
    check: RbacEscalation, asked: AdmissionAttributes, new: Document | None, old: Document | None
) -> None:
    """The user holds the rights, or may escalate or bind; deletions and other kinds are not checked."""
    assert check.admit(asked, new, old) is new


@pytest.mark.parametrize(
    ("asked", "new", "old", "why"),
    [
        pytest.param(request(ALICE, "create", ROLES, "r"), OLD, None, f"{TITLE}\n{SECRETS}", id="role"),
        pytest.param(
            request(ALICE, "create", ROLES, "mine"),
            role("mine", rule("get list", "secrets"), namespace="ns"),
            None,
            f"{TITLE}\n{SECRETS}",
            id="a right by name does not reach a creation",
        ),
        pytest.param(
            request(ALICE, "update", ROLES, "r"),
            role("r", rule("get", "pods"), rule("get list", "secrets"), namespace="ns"),
            role("r", namespace="ns"),
            f"{TITLE}\n{SECRETS}",
            id="update",
        ),
        pytest.param(
            request(ALICE, "create", CLUSTER_ROLES, "r"),
            role("r", rule("get", "pods"), rule("get", paths="/x")),
            None,
            f'{TITLE}\n{{APIGroups:[""], Resources:["pods"], Verbs:["get"]}}\n{{NonResourceURLs:["/x"], Verbs:["get"]}}',
            id="cluster role by a right in a namespace",
        ),
        pytest.param(
            request(ALICE, "create", CLUSTER_ROLES, "r"),
            role("r", aggregationRule=GATHERING),
            None,
            "must have cluster-admin privileges to use the aggregationRule",
            id="gathering",
        ),
        pytest.param(
            request(ALICE, "update", CLUSTER_ROLES, "r"),
            role("r"),
            role("r", aggregationRule=GATHERING),
            "must have cluster-admin privileges to use the aggregationRule",
            id="no more gathering",
        ),
        pytest.param(
            request(ALICE, "create", BINDINGS, "b"), bound("secrets"), None, f"{TITLE}\n{SECRETS}", id="binding"
        ),
        pytest.param(
            request(ALICE, "create", CLUSTER_BINDINGS, "b"),
            binding("b", "pods", subject("User", "eve")),
            None,
            f'{TITLE}\n{{APIGroups:[""], Resources:["pods"], Verbs:["get"]}}',
            id="cluster binding by a right in a namespace",
        ),
    ],
)
async def test_grant_is_refused(
    check: RbacEscalation, asked: AdmissionAttributes, new: Document, old: Document | None, why: str
) -> None:
    """The error is 403 with upstream's message."""
    with pytest.raises(ApiError) as caught:
        check.admit(asked, new, old)
    resource = asked.served.resource.group_resource
    assert (caught.value.code, caught.value.message) == (403, f'{resource} "{asked.name}" is forbidden: {why}')


async def test_binding_to_a_role_that_is_not_there_is_not_found(check: RbacEscalation) -> None:
    """The rights of a missing role are unknown."""
    with pytest.raises(ApiError) as caught:
        check.admit(request(ALICE, "create", BINDINGS, "b"), bound("gone", "Role"), None)
    assert (caught.value.code, caught.value.message) == (404, f'{ROLES} "gone" not found')


async def test_error_lists_missing_roles_of_the_writer(check: RbacEscalation, store: DurableStore) -> None:
    """A missing role may be the reason why the writer lacks a right."""
    await put(store, BINDINGS, binding("lost", "lost", subject("User", "alice"), namespace="ns"))
    with pytest.raises(ApiError) as caught:
        check.admit(request(ALICE, "create", ROLES, "r"), OLD, None)
    assert caught.value.message.endswith(f'{SECRETS}; resolution errors: [role.{RBAC} "lost" not found]')
