"""Who may write a policy with parameters: users who can read them."""

import pytest

from access_objects import ADMIN, ALICE, RBAC, authorizer, binding, put, request, role, rule, subject
from pykubelet.api.errors import Invalid
from pykubelet.api.schema import VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.plugin.policy.param_access import ParamAccess
from pykubelet.apiserver.admission.plugin.policy.params import ParamSource
from pykubelet.apiserver.registry import BUILT_IN_KINDS, ServedKinds
from pykubelet.apiserver.storage.durable_store import DurableStore

POLICIES, BINDINGS = VALIDATING_ADMISSION_POLICIES.group_resource, VALIDATING_ADMISSION_POLICY_BINDINGS.group_resource
WHO = "user &{alice  [system:authenticated] map[]}"
RULES = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"], "scope": "*"}]


@pytest.fixture
async def access(store: DurableStore) -> ParamAccess:
    """Alice reads config maps everywhere and secrets in `ns`."""
    await put(store, f"clusterroles.{RBAC}", role("maps", rule("get list", "configmaps")))
    await put(store, f"clusterrolebindings.{RBAC}", binding("maps", "maps", subject("User", "alice")))
    await put(store, f"roles.{RBAC}", role("secrets", rule("get", "secrets"), namespace="ns"))
    await put(store, f"rolebindings.{RBAC}", binding("s", "secrets", subject("User", "alice"), namespace="ns"))
    for name, kind in {"maps": "ConfigMap", "secrets": "Secret", "things": "Thing"}.items():
        await put(store, POLICIES, policy(kind, name=name))
    params = ParamSource(ServedKinds(BUILT_IN_KINDS), store)
    return ParamAccess(params, store.newest, authorizer(store).decide)


def policy(kind: str | None, *, name: str = "p", expression: str = "true") -> Document:
    matched = {"resourceRules": RULES, "matchPolicy": "Exact", "namespaceSelector": {}, "objectSelector": {}}
    spec: Document = {
        "failurePolicy": "Fail",
        "matchConstraints": matched,
        "validations": [{"expression": expression}],
    }
    if kind is not None:
        spec["paramKind"] = {"apiVersion": "v1", "kind": kind}
    resource = VALIDATING_ADMISSION_POLICIES
    return {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {"name": name}, "spec": spec}


def bound(to: str, **ref: object) -> Document:
    spec: Document = {"policyName": to, "validationActions": ["Deny"]}
    if ref:
        spec["paramRef"] = {"parameterNotFoundAction": "Deny", **ref}
    resource = VALIDATING_ADMISSION_POLICY_BINDINGS
    return {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {"name": "b"}, "spec": spec}


@pytest.mark.parametrize(
    ("new", "problem"),
    [
        (policy(None), ""),
        (policy("ConfigMap"), ""),
        (
            policy("Secret"),
            f'{WHO} must have "get" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)',
        ),
        (
            policy("Thing"),
            f'{WHO} must have "get" permission on all objects of the referenced paramKind (kind=Thing, apiVersion=v1)',
        ),
    ],
)
def test_policy_needs_its_writer_to_read_all_parameters(access: ParamAccess, new: Document, problem: str) -> None:
    _judge(access, POLICIES, new, problem and f"spec.paramKind: Forbidden: {problem}")


_UNKNOWN = f'to determine minimum required permissions and {WHO} does not have "get" permission for all groups, versions and resources'


@pytest.mark.parametrize(
    ("new", "problem"),
    [
        (bound("secrets"), ""),
        (bound("maps", name="a"), ""),
        (bound("maps", selector={}), ""),
        (bound("secrets", name="a", namespace="ns"), ""),
        (bound("secrets", name="a"), f'{WHO} does not have "get" permission on the object referenced by paramRef'),
        (
            bound("secrets", selector={}, namespace="ns"),
            f'{WHO} does not have "list" permission on the object referenced by paramRef',
        ),
        (bound("none", name="a"), f"unable to get policy none {_UNKNOWN}"),
        (bound("things", name="a"), f"unable to resolve paramKind &ParamKind{{APIVersion:v1,Kind:Thing,}} {_UNKNOWN}"),
    ],
)
def test_binding_needs_its_writer_to_read_the_parameter(access: ParamAccess, new: Document, problem: str) -> None:
    _judge(access, BINDINGS, new, problem and f"spec.paramRef: Forbidden: {problem}")


def _judge(access: ParamAccess, collection: str, new: Document, problem: str) -> None:
    name = new["metadata"]["name"]
    assert access.admit(request(ADMIN, "create", collection, name), new, None) is new
    asked = request(ALICE, "create", collection, name)
    if not problem:
        assert access.admit(asked, new, None) is new
        return
    with pytest.raises(Invalid) as caught:
        access.admit(asked, new, None)
    assert caught.value.message.endswith(f"is invalid: {problem}")


def test_unchanged_parameters_and_invalid_objects_are_not_refused(access: ParamAccess) -> None:
    old, new = policy("Secret"), policy("Secret", expression="object.x == 1")
    asked = request(ALICE, "update", POLICIES, "p")
    assert access.admit(asked, new, old) is new
    with pytest.raises(Invalid):
        access.admit(asked, new, policy("ConfigMap"))
    broken = policy("Secret", expression="1")
    assert access.admit(asked, broken, None) is broken, "its own errors come first"
