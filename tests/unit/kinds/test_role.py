"""The strategies of the RBAC kinds."""

from typing import Any

import pytest

from pykubelet.kinds.role import CLUSTER_ROLE, GROUP, ROLE
from pykubelet.kinds.role_binding import CLUSTER_ROLE_BINDING, ROLE_BINDING
from strategy_calls import create, update

_ROLES, _CLUSTER_ROLES = ROLE.strategy, CLUSTER_ROLE.strategy
_BINDINGS, _CLUSTER_BINDINGS = ROLE_BINDING.strategy, CLUSTER_ROLE_BINDING.strategy
_RULE = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
_REF = {"kind": "ClusterRole", "name": "view"}


def test_role_names_are_anything_that_a_path_can_hold() -> None:
    """Colons and upper-case letters are allowed too."""
    document = {"metadata": {"name": "system:Me"}, "rules": [_RULE]}
    assert create(_ROLES, document)[1] == []
    assert create(_CLUSTER_ROLES, document, namespace="")[1] == []
    assert create(_ROLES, {**document, "metadata": {"name": "a/b%"}})[1] == [
        "metadata.name: Invalid value: \"a/b%\": may not contain '/'",
        "metadata.name: Invalid value: \"a/b%\": may not contain '%'",
    ]


@pytest.mark.parametrize(
    ("rule", "messages"),
    [
        pytest.param(
            {},
            [
                "rules[0].verbs: Required value: verbs must contain at least one value",
                "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[0].resources: Required value: resource rules must supply at least one resource",
            ],
            id="empty",
        ),
        pytest.param(
            {"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["pods"]},
            [
                'rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs',
                'rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs',
            ],
            id="paths",
        ),
    ],
)
def test_role_is_refused_when_a_rule_makes_no_sense(rule: dict[str, Any], messages: list[str]) -> None:
    """The messages are the API server's; on update each comes twice."""
    assert create(_ROLES, {"rules": [rule]})[1] == messages
    stored, _ = create(_ROLES, {"rules": [_RULE]})
    assert update(_ROLES, stored, {"rules": [rule]})[1] == messages * 2


def test_cluster_role_may_aggregate_others_by_label() -> None:
    """The aggregation rule needs valid selectors."""
    path = {"nonResourceURLs": ["/healthz"], "verbs": ["get"]}
    good = {"rules": [path], "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
    assert create(_CLUSTER_ROLES, good, namespace="")[1] == []
    assert create(_CLUSTER_ROLES, {"aggregationRule": {}}, namespace="")[1] == [
        "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil"
    ]
    bad = {"aggregationRule": {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Is"}]}]}}
    assert create(_CLUSTER_ROLES, bad, namespace="")[1] == [
        'aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator',
        "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector.",
    ]


def test_binding_is_filled_in_with_api_groups() -> None:
    """Subjects that are service accounts get none."""
    subjects = [{"kind": kind, "name": "n", "namespace": "d"} for kind in ("User", "Group", "ServiceAccount")]
    stored, messages = create(_BINDINGS, {"roleRef": _REF, "subjects": subjects})
    assert messages == []
    assert stored["roleRef"] == {**_REF, "apiGroup": GROUP}
    assert [subject.get("apiGroup") for subject in stored["subjects"]] == [GROUP, GROUP, None]


@pytest.mark.parametrize(
    ("strategy", "document", "messages"),
    [
        pytest.param(
            _BINDINGS,
            {"roleRef": {"apiGroup": "x", "kind": "Pod"}},
            [
                f'roleRef.apiGroup: Unsupported value: "x": supported values: "{GROUP}"',
                'roleRef.kind: Unsupported value: "Pod": supported values: "Role", "ClusterRole"',
                "roleRef.name: Required value",
            ],
            id="reference",
        ),
        pytest.param(
            _CLUSTER_BINDINGS,
            {
                "roleRef": {"kind": "Role", "name": "r"},
                "subjects": [
                    {"kind": "ServiceAccount", "name": "A", "apiGroup": "x"},
                    {"kind": "User", "apiGroup": "y"},
                    {"kind": "Robot", "name": "r"},
                ],
            },
            [
                'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"',
                "subjects[0].name: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                'subjects[0].apiGroup: Unsupported value: "x": supported values: ""',
                "subjects[0].namespace: Required value",
                "subjects[1].name: Required value",
                f'subjects[1].apiGroup: Unsupported value: "y": supported values: "{GROUP}"',
                'subjects[2].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"',
            ],
            id="subjects",
        ),
    ],
)
def test_binding_is_rejected_when_invalid(strategy: Any, document: dict[str, Any], messages: list[str]) -> None:
    """The messages are the API server's."""
    assert create(strategy, document, namespace="" if strategy is _CLUSTER_BINDINGS else "default")[1] == messages


def test_binding_is_refused_when_its_role_changes() -> None:
    """Changing the role of a binding could grant more than the user has."""
    stored, _ = create(_BINDINGS, {"roleRef": _REF})
    assert update(_BINDINGS, stored, {"roleRef": {"name": "edit"}})[1] == [
        f'roleRef: Invalid value: {{"APIGroup":"{GROUP}","Kind":"ClusterRole","Name":"edit"}}: cannot change roleRef'
    ]
    nameless = {"subjects": [{"kind": "ServiceAccount"}]}
    assert update(_BINDINGS, stored, nameless)[1] == ["subjects[0].name: Required value"] * 2
    assert _BINDINGS.allows_create_on_update
