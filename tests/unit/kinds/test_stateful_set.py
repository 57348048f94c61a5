"""The rules of StatefulSets."""

from typing import Any

import pytest

from pykubelet.kinds import stateful_set
from strategy_calls import SELECTOR, TEMPLATE, create, update, update_status

STATEFUL_SETS = stateful_set.KIND.strategy

_SPEC = {"selector": SELECTOR, "template": TEMPLATE}
_CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}},
}
_IMMUTABLE = "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"


def _stateful_set(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {**_SPEC, **spec}}


def test_stateful_set_gets_defaults_when_fields_are_missing() -> None:
    """Order, strategy, retention and the claims of its pods have defaults."""
    stored, messages = create(STATEFUL_SETS, _stateful_set(volumeClaimTemplates=[_CLAIM]))
    assert messages == []
    spec = {name: value for name, value in stored["spec"].items() if name not in {"selector", "template"}}
    assert spec == {
        "replicas": 1,
        "serviceName": "",
        "podManagementPolicy": "OrderedReady",
        "revisionHistoryLimit": 10,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "volumeClaimTemplates": [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "data"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                    "volumeMode": "Filesystem",
                },
                "status": {"phase": "Pending"},
            }
        ],
    }
    assert stored["status"] == {"replicas": 0, "availableReplicas": 0}


def test_stateful_set_may_mount_its_claims_when_no_volume_names_them() -> None:
    """The controller adds these volumes to the pods; it also sets hostname and subdomain, which are not validated."""
    pod = {
        "containers": [{"name": "c", "image": "x", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}],
        "hostname": "Not_Valid",
        "subdomain": "Not_Valid",
    }
    template = {**TEMPLATE, "spec": pod}
    assert create(STATEFUL_SETS, _stateful_set(template=template, volumeClaimTemplates=[_CLAIM]))[1] == []
    without = create(STATEFUL_SETS, _stateful_set(template=template))[1]
    assert without == ['spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"']


@pytest.mark.parametrize(
    ("spec", "messages"),
    [
        pytest.param(
            {"podManagementPolicy": "Random"},
            ["spec.podManagementPolicy: Invalid value: \"Random\": must be 'OrderedReady' or 'Parallel'"],
            id="order",
        ),
        pytest.param(
            {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}},
            [
                'spec.updateStrategy.rollingUpdate: Invalid value: {"Partition":1,"MaxUnavailable":null}: only allowed for updateStrategy \'RollingUpdate\''
            ],
            id="on delete",
        ),
        pytest.param(
            {"updateStrategy": {"type": "Blue"}},
            [
                'spec.updateStrategy: Invalid value: {"Type":"Blue","RollingUpdate":null}: must be \'RollingUpdate\' or \'OnDelete\''
            ],
            id="strategy",
        ),
        pytest.param(
            {"updateStrategy": {"rollingUpdate": {"partition": -1, "maxUnavailable": 0}}},
            [
                "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0",
            ],
            id="partition",
        ),
        pytest.param(
            {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Keep"}},
            [
                'spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "Keep": supported values: "Retain", "Delete"'
            ],
            id="retention",
        ),
        pytest.param(
            {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]},
            [
                "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
                "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
            ],
            id="claims",
        ),
        pytest.param(
            {"ordinals": {"start": -1}},
            ["spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0"],
            id="ordinals",
        ),
        pytest.param({"serviceName": "web"}, [], id="service"),
        pytest.param(
            {"selector": {}},
            ["spec.selector: Invalid value: {}: empty selector is invalid for statefulset"],
            id="empty selector",
        ),
        pytest.param(
            {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            [
                "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                'spec.selector: Invalid value: {"matchExpressions":[{"key":"a","operator":"In"}]}',
            ],
            id="bad selector",
        ),
    ],
)
def test_stateful_set_is_rejected_when_its_spec_is_invalid(spec: dict[str, Any], messages: list[str]) -> None:
    """The messages are the API server's."""
    assert create(STATEFUL_SETS, _stateful_set(**spec))[1] == messages


def test_stateful_set_name_must_be_a_label() -> None:
    """The names of its pods, and of their hosts, start with it."""
    _, messages = create(STATEFUL_SETS, {**_stateful_set(), "metadata": {"name": "a.b"}})
    assert messages == ['metadata.name: Invalid value: "a.b": must not contain dots']


@pytest.mark.parametrize(
    ("patch", "messages"),
    [
        ({"replicas": 3, "minReadySeconds": 1, "ordinals": {"start": 2}}, []),
        ({"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}, []),
        ({"serviceName": "Other_Name"}, [_IMMUTABLE]),
        ({"podManagementPolicy": "Parallel"}, [_IMMUTABLE]),
        ({"volumeClaimTemplates": [{"metadata": {"name": "more"}}]}, [_IMMUTABLE]),
    ],
    ids=["scale", "strategy", "service", "order", "claims"],
)
def test_stateful_set_update_may_change_only_some_fields(patch: dict[str, Any], messages: list[str]) -> None:
    """Any other change gives the same message."""
    stored, _ = create(STATEFUL_SETS, _stateful_set())
    new, found = update(STATEFUL_SETS, stored, {"spec": patch})
    assert found == messages
    assert new["metadata"]["generation"] == 2


def test_stateful_set_keeps_max_unavailable_only_when_it_was_there() -> None:
    """The feature of this field is off."""
    rolling = {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "0%"}}}
    stored, _ = create(STATEFUL_SETS, _stateful_set(**rolling))
    assert "maxUnavailable" not in stored["spec"]["updateStrategy"]["rollingUpdate"]
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 2}}
    older = {**stored, "spec": {**stored["spec"], "updateStrategy": strategy}}
    new, messages = update(STATEFUL_SETS, older, {"spec": rolling})
    assert new["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == "0%"
    assert messages == ['spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "0%": cannot be 0']


def test_stateful_set_with_a_bad_template_can_still_be_scaled() -> None:
    """A stored template is not validated again."""
    stored, _ = create(STATEFUL_SETS, _stateful_set())
    bad = {**stored["spec"]["template"], "spec": {**stored["spec"]["template"]["spec"], "dnsPolicy": "Guess"}}
    older = {**stored, "spec": {**stored["spec"], "template": bad}}
    assert update(STATEFUL_SETS, older, {"spec": {"replicas": 2}})[1] == []


def test_stateful_set_status_is_refused_when_its_counts_disagree() -> None:
    """The message names the field in full, unlike that of other kinds."""
    stored, _ = create(STATEFUL_SETS, _stateful_set())
    _, messages = update_status(STATEFUL_SETS, stored, {"status": {"replicas": 1, "availableReplicas": 1}})
    assert messages == ["status.availableReplicas: Invalid value: 1: cannot be greater than status.readyReplicas"]
