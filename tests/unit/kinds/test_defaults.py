"""What every kind does alike: defaults of a document that states nothing but what it must, and checks of metadata."""

from typing import Any

import pytest

from pykubelet.api.patch.json_merge_patch import diff_merge
from pykubelet.kinds.registry import KINDS
from strategy_calls import POD_SPEC, SELECTOR, SYSTEM, TEMPLATE

_KINDS = {kind.definition: kind for kind in KINDS}

_CONTAINER = {
    "name": "c",
    "image": "x",
    "imagePullPolicy": "Always",
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_POD = {
    "containers": [_CONTAINER],
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "terminationGracePeriodSeconds": 30,
}
# What the template of a workload gets, as a merge patch.
_FILLED = {"spec": _POD}
_FILLED_JOB = {"metadata": {}, "spec": {name: value for name, value in _POD.items() if name != "restartPolicy"}}
_JOB_TEMPLATE = {"spec": {**POD_SPEC, "restartPolicy": "Never"}}
_WORKLOAD = {"spec": {"selector": SELECTOR, "template": TEMPLATE}}
_RBAC = "rbac.authorization.k8s.io"

DEFAULTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("core.v1.ConfigMap", {}, {}),
    ("core.v1.Secret", {}, {"type": "Opaque"}),
    ("core.v1.ServiceAccount", {}, {}),
    (
        "core.v1.Namespace",
        {},
        {"metadata": {"labels": {"kubernetes.io/metadata.name": "x"}}, "spec": {}, "status": {"phase": "Active"}},
    ),
    (
        "core.v1.PersistentVolumeClaim",
        {"spec": {}},
        {"spec": {"volumeMode": "Filesystem", "resources": {}}, "status": {"phase": "Pending"}},
    ),
    (
        "core.v1.PersistentVolume",
        {"spec": {"hostPath": {"path": "/a"}}},
        {
            "spec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem", "hostPath": {"type": ""}},
            "status": {"phase": "Pending"},
        },
    ),
    (
        "core.v1.Endpoints",
        {"subsets": [{"addresses": [{"ip": "1.1.1.1"}], "ports": [{"port": 1}]}]},
        {"subsets": [{"addresses": [{"ip": "1.1.1.1"}], "ports": [{"port": 1, "protocol": "TCP"}]}]},
    ),
    (
        "core.v1.Service",
        {"spec": {"ports": [{"port": 80}]}},
        {
            "spec": {
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "internalTrafficPolicy": "Cluster",
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            },
            "status": {"loadBalancer": {}},
        },
    ),
    (
        "core.v1.ReplicationController",
        {"spec": {"template": TEMPLATE}},
        {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"replicas": 1, "selector": {"a": "b"}, "template": _FILLED},
            "status": {"replicas": 0},
        },
    ),
    ("apps.v1.ReplicaSet", _WORKLOAD, {"spec": {"replicas": 1, "template": _FILLED}, "status": {"replicas": 0}}),
    (
        "apps.v1.Deployment",
        _WORKLOAD,
        {
            "spec": {
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "progressDeadlineSeconds": 600,
                "template": _FILLED,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
            },
            "status": {},
        },
    ),
    (
        "apps.v1.StatefulSet",
        {"spec": {**_WORKLOAD["spec"], "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {}}]}},
        {
            "spec": {
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "podManagementPolicy": "OrderedReady",
                "template": _FILLED,
                "serviceName": "",
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
                "volumeClaimTemplates": [
                    {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        "metadata": {"name": "v"},
                        "spec": {"volumeMode": "Filesystem", "resources": {}},
                        "status": {"phase": "Pending"},
                    }
                ],
            },
            "status": {"availableReplicas": 0, "replicas": 0},
        },
    ),
    (
        "apps.v1.DaemonSet",
        _WORKLOAD,
        {
            "metadata": {"annotations": {"deprecated.daemonset.template.generation": "0"}},
            "spec": {
                "revisionHistoryLimit": 10,
                "template": _FILLED,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            },
            "status": dict.fromkeys(
                ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"), 0
            ),
        },
    ),
    (
        "batch.v1.Job",
        {"spec": {"template": _JOB_TEMPLATE}},
        {
            "spec": {
                "completions": 1,
                "parallelism": 1,
                "backoffLimit": 6,
                "completionMode": "NonIndexed",
                "suspend": False,
                "manualSelector": False,
                "podReplacementPolicy": "TerminatingOrFailed",
                "template": _FILLED_JOB,
            },
            "status": {},
        },
    ),
    (
        "batch.v1.CronJob",
        {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": _JOB_TEMPLATE}}}},
        {
            "spec": {
                "concurrencyPolicy": "Allow",
                "suspend": False,
                "successfulJobsHistoryLimit": 3,
                "failedJobsHistoryLimit": 1,
                "jobTemplate": {"metadata": {}, "spec": {"template": _FILLED_JOB}},
            },
            "status": {},
        },
    ),
    (
        "autoscaling.v2.HorizontalPodAutoscaler",
        {"spec": {"scaleTargetRef": {"kind": "D", "name": "d"}, "maxReplicas": 3}},
        {
            "spec": {
                "minReplicas": 1,
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
                    }
                ],
            },
            # Go writes the list without omitting it.
            "status": {"desiredReplicas": 0, "currentMetrics": None},
        },
    ),
    (
        "policy.v1.PodDisruptionBudget",
        {"spec": {}},
        {"status": dict.fromkeys(("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"), 0)},
    ),
    (
        "discovery.v1.EndpointSlice",
        {"addressType": "IPv4", "endpoints": [{"addresses": ["1.1.1.1"]}], "ports": [{}]},
        {
            "endpoints": [{"addresses": ["1.1.1.1"], "conditions": {}}],
            "ports": [{"name": "", "protocol": "TCP"}],
        },
    ),
    (
        "networking.v1.NetworkPolicy",
        {"spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 1}]}]}},
        {"spec": {"policyTypes": ["Ingress"], "ingress": [{"ports": [{"port": 1, "protocol": "TCP"}]}]}},
    ),
    (
        "networking.v1.NetworkPolicy",
        {"spec": {"podSelector": {}, "egress": [{}]}},
        {"spec": {"policyTypes": ["Ingress", "Egress"]}},
    ),
    ("scheduling.v1.PriorityClass", {"value": 1}, {"preemptionPolicy": "PreemptLowerPriority"}),
    ("storage.v1.StorageClass", {"provisioner": "p"}, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
    (
        "rbac.v1.RoleBinding",
        {
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": k, "name": "n"} for k in ("User", "ServiceAccount", "Group")],
        },
        {
            "roleRef": {"apiGroup": _RBAC},
            "subjects": [
                {"kind": "User", "name": "n", "apiGroup": _RBAC},
                {"kind": "ServiceAccount", "name": "n"},
                {"kind": "Group", "name": "n", "apiGroup": _RBAC},
            ],
        },
    ),
]


@pytest.mark.parametrize(
    ("definition", "document", "added"), DEFAULTS, ids=[f"{index}-{row[0]}" for index, row in enumerate(DEFAULTS)]
)
def test_document_gets_the_defaults_of_its_kind(
    definition: str, document: dict[str, Any], added: dict[str, Any]
) -> None:
    """The defaults are compared as the merge patch from what was sent to what is stored."""
    sent = {"metadata": {"name": "x"}, **document}
    stored = _KINDS[definition].strategy.default(sent)
    assert diff_merge(sent, stored) == added


# How often an invalid label is reported on create, on update and on update of the status (None without one), and the
# generation of a new object. Upstream checks metadata twice where the update of a kind validates the whole object.
REPORTS: dict[str, tuple[int, int, int | None, int | None]] = {
    "core.v1.ConfigMap": (1, 2, None, None),
    "core.v1.Secret": (1, 2, None, None),
    "core.v1.ServiceAccount": (1, 2, None, None),
    "core.v1.Namespace": (1, 2, 1, None),
    "core.v1.PersistentVolumeClaim": (1, 3, 1, None),
    "core.v1.PersistentVolume": (1, 2, 1, None),
    "core.v1.Endpoints": (1, 2, None, None),
    "core.v1.Service": (1, 1, 1, None),
    "core.v1.ReplicationController": (1, 2, 1, 1),
    "apps.v1.ReplicaSet": (1, 1, 1, 1),
    "apps.v1.Deployment": (1, 1, 0, 1),
    "apps.v1.StatefulSet": (1, 1, 1, 1),
    "apps.v1.DaemonSet": (1, 1, 1, 1),
    "batch.v1.Job": (1, 2, 1, 1),
    "batch.v1.CronJob": (1, 1, 0, 1),
    "autoscaling.v2.HorizontalPodAutoscaler": (1, 1, 1, None),
    "policy.v1.PodDisruptionBudget": (0, 0, 0, 1),
    "discovery.v1.EndpointSlice": (1, 1, None, 1),
    "networking.v1.NetworkPolicy": (1, 2, None, 1),
    "scheduling.v1.PriorityClass": (1, 1, None, 1),
    "storage.v1.StorageClass": (1, 2, None, None),
    "rbac.v1.RoleBinding": (1, 3, None, None),
}
_DOCUMENTS = {definition: document for definition, document, _ in reversed(DEFAULTS)}
_CREATED_ON_UPDATE = {"core.v1.Endpoints", "core.v1.Service", "rbac.v1.RoleBinding"}


@pytest.mark.parametrize("definition", _DOCUMENTS)
def test_endpoints_of_a_kind_report_an_invalid_label(definition: str) -> None:
    kind = _KINDS[definition]
    strategy, place = kind.strategy, {"namespace": "default"} if kind.resource.namespaced else {}
    sent = {**_DOCUMENTS[definition], "metadata": {"name": "x", **SYSTEM, **place}}
    stored = strategy.prepare_create(strategy.default(sent))
    bad = {**stored, "metadata": {**stored["metadata"], "labels": {"a b": "x"}}}
    found = {
        "create": strategy.validate_create(bad),
        "update": strategy.validate_update(strategy.prepare_update(bad, stored), stored),
        "status": strategy.validate_status(strategy.prepare_status(bad, stored), stored),
    }
    counts = {name: sum(error.field == "metadata.labels" for error in errors) for name, errors in found.items()}
    create, update, status, generation = REPORTS[definition]
    assert counts == {"create": create, "update": update, "status": status or 0}
    assert ("status" in kind.subresources) == (status is not None)
    assert stored["metadata"].get("generation") == generation
    assert strategy.allows_create_on_update == (definition in _CREATED_ON_UPDATE)
    assert strategy.allows_unconditional_update == (definition != "policy.v1.PodDisruptionBudget")
