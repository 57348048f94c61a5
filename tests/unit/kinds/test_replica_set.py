"""The rules of ReplicaSets and Deployments: defaults, endpoints, messages."""

from typing import Any

import pytest

from pykubelet.api.errors import BadRequest
from pykubelet.kinds import deployment, replica_set
from pykubelet.kinds.deployment import ROLLBACK_ANNOTATION
from strategy_calls import SELECTOR, TEMPLATE, create, update, update_status

DEPLOYMENTS = deployment.KIND.strategy
REPLICA_SETS = replica_set.KIND.strategy

_SPEC = {"selector": SELECTOR, "template": TEMPLATE}
_REPLICA_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": _SPEC}
_DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": _SPEC}
_MISMATCH = "spec.template.metadata.labels: Invalid value: {labels}: `selector` does not match template `labels`"


def _pod(**fields: Any) -> dict[str, Any]:
    return {"template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], **fields}}}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("spec", "messages"),
    [
        pytest.param(
            {"replicas": -1}, ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"], id="-1"
        ),
        pytest.param(
            {"selector": {}},
            ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
            id="empty selector",
        ),
        pytest.param(
            {"selector": {"matchExpressions": [{"key": "a", "operator": "Is", "values": ["b"]}]}},
            [
                'spec.selector.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator',
                'spec.selector: Invalid value: {"matchExpressions":[{"key":"a","operator":"Is","values":["b"]}]}: invalid label selector',
            ],
            id="no selector at all",
        ),
        pytest.param(
            {"selector": {"matchLabels": {"z": "z"}}}, [_MISMATCH.format(labels='{"a":"b"}')], id="other labels"
        ),
        pytest.param(
            _pod(restartPolicy="Never", activeDeadlineSeconds=5),
            [
                'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
            ],
            id="pods that end",
        ),
        pytest.param(
            _pod(ephemeralContainers=[{"name": "d", "image": "x"}]),
            ["spec.template.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template"],
            id="ephemeral containers",
        ),
    ],
)
@pytest.mark.parametrize(("strategy", "document"), [(REPLICA_SETS, _REPLICA_SET), (DEPLOYMENTS, _DEPLOYMENT)])
def test_set_of_pods_is_rejected_when_its_spec_is_invalid(
    strategy: Any, document: dict[str, Any], spec: dict[str, Any], messages: list[str]
) -> None:
    """Both kinds report the same errors for the fields that they share."""
    assert create(strategy, {**document, "spec": {**_SPEC, **spec}})[1] == messages


def test_replica_set_moves_its_generation_when_the_spec_changes() -> None:
    """A change of its own labels does not do so."""
    stored, messages = create(REPLICA_SETS, {**_REPLICA_SET, "status": {"replicas": 9}})
    assert messages == []
    assert (stored["metadata"]["generation"], stored["status"]) == (1, {"replicas": 0})
    labelled, _ = update(REPLICA_SETS, stored, {"metadata": {"labels": {"x": "y"}}, "status": {"replicas": 3}})
    assert (labelled["metadata"]["generation"], labelled["status"]) == (1, {"replicas": 0})
    scaled, messages = update(REPLICA_SETS, stored, {"spec": {"replicas": 0}, "metadata": {"generation": 77}})
    assert (scaled["metadata"]["generation"], scaled["spec"]["replicas"], messages) == (2, 0, [])


def test_replica_set_status_is_refused_when_its_counts_disagree() -> None:
    """No part may exceed the whole."""
    stored, _ = create(REPLICA_SETS, _REPLICA_SET)
    status = {"replicas": 1, "readyReplicas": 2, "availableReplicas": 3, "fullyLabeledReplicas": -1}
    new, messages = update_status(REPLICA_SETS, stored, {"spec": {"replicas": 7}, "status": status})
    assert messages == [
        "status.fullyLabeledReplicas: Invalid value: -1: must be greater than or equal to 0",
        "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
        "status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
        "status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas",
    ]
    assert new["spec"]["replicas"] == 1


def test_status_drops_terminating_replicas_when_they_were_not_counted_before() -> None:
    """The feature of this field is off."""
    stored, _ = create(DEPLOYMENTS, _DEPLOYMENT)
    new, _ = update_status(DEPLOYMENTS, stored, {"status": {"terminatingReplicas": 2, "replicas": 1}})
    assert new["status"] == {"replicas": 1}


def test_status_keeps_terminating_replicas_that_were_counted_before() -> None:
    """An object has the field from a server with the feature on; a new count replaces it."""
    stored, _ = create(DEPLOYMENTS, _DEPLOYMENT)
    counted = {**stored, "status": {"terminatingReplicas": 2, "replicas": 1}}
    new, _ = update_status(DEPLOYMENTS, counted, {"status": {"terminatingReplicas": 1}})
    assert new["status"] == {"terminatingReplicas": 1, "replicas": 1}


@pytest.mark.parametrize(
    ("spec", "messages"),
    [
        pytest.param(
            {"strategy": {"type": "Recreate", "rollingUpdate": {}}},
            ["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
            id="recreate with rolling",
        ),
        pytest.param(
            {"strategy": {"type": "Blue"}},
            [
                'spec.strategy: Unsupported value: {"Type":"Blue","RollingUpdate":null}: supported values: "Recreate", "RollingUpdate"'
            ],
            id="unknown type",
        ),
        pytest.param(
            {"strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "0%"}}},
            ["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"],
            id="no room",
        ),
        pytest.param({"strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}}, [], id="surge only"),
        pytest.param({"strategy": {"rollingUpdate": {"maxUnavailable": "1%", "maxSurge": 0}}}, [], id="no surge"),
        pytest.param({"strategy": {"rollingUpdate": {"maxUnavailable": "100%"}}}, [], id="all at once"),
        pytest.param(
            {"minReadySeconds": 5, "progressDeadlineSeconds": 6, "revisionHistoryLimit": 0, "replicas": 0},
            [],
            id="at the limits",
        ),
        pytest.param(
            {"strategy": {"rollingUpdate": {"maxUnavailable": "101%", "maxSurge": "x"}}},
            [
                "spec.strategy.rollingUpdate.maxSurge: Invalid value: \"x\": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
                'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%',
            ],
            id="percentages",
        ),
        pytest.param(
            {"minReadySeconds": 5, "progressDeadlineSeconds": 5, "revisionHistoryLimit": -1},
            [
                "spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
                "spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds",
            ],
            id="deadline",
        ),
    ],
)
def test_deployment_is_refused_when_its_strategy_or_limits_make_no_sense(
    spec: dict[str, Any], messages: list[str]
) -> None:
    """The messages are the API server's."""
    assert create(DEPLOYMENTS, {**_DEPLOYMENT, "spec": {**_SPEC, **spec}})[1] == messages


def test_deployment_moves_its_generation_when_annotations_change() -> None:
    """The controller copies annotations to the replica sets."""
    stored, messages = create(DEPLOYMENTS, _DEPLOYMENT)
    assert messages == []
    annotated, _ = update(DEPLOYMENTS, stored, {"metadata": {"annotations": {"x": "y"}}})
    assert annotated["metadata"]["generation"] == 2
    assert update(DEPLOYMENTS, stored, {"metadata": {"labels": {"x": "y"}}})[0]["metadata"]["generation"] == 1


def test_deployment_keeps_its_labels_and_collisions_when_the_status_is_written() -> None:
    """A status update can neither change labels nor decrease collisionCount."""
    stored, _ = create(DEPLOYMENTS, {**_DEPLOYMENT, "metadata": {"labels": {"a": "b"}}})
    new, messages = update_status(
        DEPLOYMENTS, stored, {"metadata": {"labels": {"c": "d"}}, "status": {"collisionCount": 2}}
    )
    assert (new["metadata"]["labels"], messages) == ({"a": "b"}, [])
    assert update_status(DEPLOYMENTS, new, {"status": {"collisionCount": 2}})[1] == []
    assert update_status(DEPLOYMENTS, new, {"status": {"collisionCount": 3}})[1] == []
    _, messages = update_status(DEPLOYMENTS, new, {"status": {"collisionCount": None}})
    assert messages == ["status.collisionCount: Invalid value: 0: cannot be decremented"]


@pytest.mark.parametrize(
    ("revision", "messages"),
    [("7", []), ("-2", ["spec.rollback.version: Invalid value: -2: must be greater than or equal to 0"])],
)
def test_deployment_reads_the_revision_to_roll_back_to(revision: str, messages: list[str]) -> None:
    """The revision is a number in an annotation."""
    document = {**_DEPLOYMENT, "metadata": {"annotations": {ROLLBACK_ANNOTATION: revision}}}
    assert create(DEPLOYMENTS, document)[1] == messages


def test_deployment_is_a_bad_request_when_the_revision_is_no_number() -> None:
    """The API server fails to decode it; an empty annotation is dropped."""
    with pytest.raises(BadRequest, match="failed to parse annotation"):
        create(DEPLOYMENTS, {**_DEPLOYMENT, "metadata": {"annotations": {ROLLBACK_ANNOTATION: "x"}}})
    empty, _ = create(DEPLOYMENTS, {**_DEPLOYMENT, "metadata": {"annotations": {ROLLBACK_ANNOTATION: ""}}})
    assert "annotations" not in empty["metadata"]
