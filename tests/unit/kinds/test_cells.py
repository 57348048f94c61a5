"""The table rows of all kinds but pods."""

from datetime import UTC, datetime
from typing import Any

import pytest

from pykubelet.api.times import ages_at
from pykubelet.apiserver.tables.table import scale_cells
from pykubelet.kinds.columns import SCALE, columns_of
from pykubelet.kinds.registry import KINDS

CELLS = {kind.resource.group_resource: kind.cells for kind in reversed(KINDS) if kind.cells} | {SCALE: scale_cells}

_AGE = ages_at(datetime(2026, 11, 15, 12, tzinfo=UTC))
_META = {"name": "n", "creationTimestamp": "2026-11-15T11:59:00Z"}
_TEMPLATE = {
    "spec": {"containers": [{"name": "c", "image": "x"}, {"name": "d", "image": "y"}], "nodeSelector": {"a": "b"}}
}
_SELECTOR = {"matchLabels": {"a": "b"}}
_WORK = ["c,d", "x,y"]
_INGRESS = {"loadBalancer": {"ingress": [{"ip": "2.2.2.2"}, {"hostname": "h"}]}}


def _hpa(spec: Any, current: Any = None) -> dict[str, Any]:
    return {
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "metrics": spec, "maxReplicas": 3},
        "status": {"currentMetrics": current or []},
    }


_CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 50}}}
_CPU_NOW = {"type": "Resource", "resource": {"current": {"averageUtilization": 40}}}
_PODS = {"type": "Pods", "pods": {"target": {"averageValue": "1k"}}}
_OBJECT = {"type": "Object", "object": {"target": {"value": "5"}}}
_EXTERNAL = {"type": "External", "external": {"target": {"averageValue": "5"}}}
_EXTERNAL_NOW = {"type": "External", "external": {"current": {"averageValue": "4"}}}

ROWS = [
    ("csidrivers.storage.k8s.io", {"spec": {"attachRequired": False, "tokenRequests": [{"audience": "a"}, {"audience": "b"}], "volumeLifecycleModes": ["Persistent", "Ephemeral"]}}, ["n", False, False, False, "a,b", False, "Persistent,Ephemeral", "60s"]),
    ("ipaddresses.networking.k8s.io", {"spec": {"parentRef": {"resource": "services", "namespace": "x", "name": "y"}}}, ["n", "services/x/y"]),
    ("ipaddresses.networking.k8s.io", {"spec": {"parentRef": {"group": "G.io", "resource": "gateways", "name": "y"}}}, ["n", "gateways.g.io/y"]),
    ("flowschemas.flowcontrol.apiserver.k8s.io", {"spec": {"matchingPrecedence": 5, "distinguisherMethod": {"type": "ByUser"}, "priorityLevelConfiguration": {"name": "p"}}, "status": {"conditions": [{"type": "Dangling", "status": "False"}]}}, ["n", "p", 5, "ByUser", "60s", "False"]),
    ("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", {"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 5, "limitResponse": {"queuing": {"queues": 1, "handSize": 2, "queueLengthLimit": 3}}}}}, ["n", "Limited", 5, 1, 2, 3, "60s"]),
    ("resourceclaims.resource.k8s.io", {"status": {"allocation": {}, "reservedFor": [{}]}}, ["n", "allocated,reserved", "60s"]),
    ("replicasets.apps", {"spec": {"replicas": 2, "template": _TEMPLATE, "selector": _SELECTOR}, "status": {"replicas": 1}}, ["n", 2, 1, 0, "60s", *_WORK, "a=b"]),
    ("replicationcontrollers", {"spec": {"replicas": 2, "selector": {"b": "c", "a": "b"}}, "status": {}}, ["n", 2, 0, 0, "60s", "", "", "a=b,b=c"]),
    ("deployments.apps", {"spec": {"replicas": 1, "selector": {"matchExpressions": [{"key": "a", "operator": "Bad"}]}}}, ["n", "0/1", 0, 0, "60s", "", "", "<invalid>"]),
    ("statefulsets.apps", {"spec": {"replicas": 1, "template": _TEMPLATE}, "status": {"readyReplicas": 1}}, ["n", "1/1", "60s", *_WORK]),
    ("daemonsets.apps", {"spec": {"template": _TEMPLATE, "selector": _SELECTOR}, "status": {"numberReady": 1}}, ["n", 0, 0, 1, 0, 0, "a=b", "60s", *_WORK, "a=b"]),
    ("jobs.batch", {"spec": {"completions": 3, "template": _TEMPLATE}, "status": {"succeeded": 1, "startTime": "2026-11-15T11:58:00Z", "completionTime": "2026-11-15T11:59:00Z", "conditions": [{"type": "Complete", "status": "True"}]}}, ["n", "Complete", "1/3", "60s", "60s", *_WORK, "<none>"]),
    ("jobs.batch", {"spec": {"parallelism": 2}, "status": {"startTime": "2026-11-15T11:58:00Z", "conditions": [{"type": "Suspended", "status": "True"}]}}, ["n", "Suspended", "0/1 of 2", "2m", "60s", "", "", "<none>"]),
    ("cronjobs.batch", {"spec": {"schedule": "* * * * *", "suspend": False, "jobTemplate": {"spec": {"template": _TEMPLATE}}}, "status": {"active": [{}], "lastScheduleTime": "2026-11-15T11:59:30Z"}}, ["n", "* * * * *", "<none>", "False", 1, "30s", "60s", *_WORK, "<none>"]),
    ("podtemplates", {"template": {**_TEMPLATE, "metadata": {"labels": {"a": "b"}}}}, ["n", *_WORK, "a=b"]),
    ("controllerrevisions.apps", {"revision": 3, "metadata": {**_META, "ownerReferences": [{"controller": True, "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d"}]}}, ["n", "daemonset.apps/d", 3, "60s"]),
    ("poddisruptionbudgets.policy", {"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 2}}, ["n", "50%", "N/A", 2, "60s"]),
    (SCALE, {"spec": {"replicas": 2}, "status": {"replicas": 1}}, ["n", 2, 1, "60s"]),
    ("services", {"spec": {"type": "NodePort", "clusterIPs": ["10.0.0.1"], "ports": [{"port": 80, "nodePort": 30000, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}], "selector": {"a": "b"}}}, ["n", "NodePort", "10.0.0.1", "<none>", "80:30000/TCP,53/UDP", "60s", "a=b"]),
    ("services", {"spec": {"type": "LoadBalancer", "externalIPs": ["1.1.1.1"]}, "status": _INGRESS}, ["n", "LoadBalancer", "<none>", "2.2.2.2,h,1.1.1.1", "<none>", "60s", "<none>"]),
    ("services", {"spec": {"type": "LoadBalancer"}}, ["n", "LoadBalancer", "<none>", "<pending>", "<none>", "60s", "<none>"]),
    ("services", {"spec": {"type": "ExternalName", "externalName": "e"}}, ["n", "ExternalName", "<none>", "e", "<none>", "60s", "<none>"]),
    ("endpoints", {"subsets": [{"addresses": [{"ip": "1.1.1.1"}, {"ip": "::1"}], "ports": [{"port": 1}, {"port": 2}]}]}, ["n", "1.1.1.1:1,[::1]:1,1.1.1.1:2 + 1 more...", "60s"]),
    ("endpoints", {"subsets": [{"addresses": [{"ip": "1.1.1.1"}]}]}, ["n", "1.1.1.1", "60s"]),
    ("endpointslices.discovery.k8s.io", {"addressType": "IPv4", "ports": [{"port": 80}, {"name": "x"}, {}], "endpoints": [{"addresses": ["1.1.1.1"]}]}, ["n", "IPv4", "80,x,*", "1.1.1.1", "60s"]),
    ("ingresses.networking.k8s.io", {"spec": {"ingressClassName": "k", "tls": [{}], "rules": [{"host": h} for h in "abcd"]}, "status": _INGRESS}, ["n", "k", "a,b,c + 1 more...", "2.2.2.2,h", "80, 443", "60s"]),
    ("ingressclasses.networking.k8s.io", {"spec": {"controller": "a.b/c", "parameters": {"kind": "K", "apiGroup": "g", "name": "p"}}}, ["n", "a.b/c", "K.g/p", "60s"]),
    ("ingressclasses.networking.k8s.io", {"spec": {"controller": "a.b/c", "parameters": {"kind": "K", "name": "p"}}}, ["n", "a.b/c", "K/p", "60s"]),
    ("ingresses.networking.k8s.io", {"spec": {"rules": [{}]}}, ["n", "<none>", "*", "", "80", "60s"]),
    ("networkpolicies.networking.k8s.io", {"spec": {"podSelector": {}}}, ["n", "<none>", "60s"]),
    ("nodes", {"metadata": {**_META, "labels": {"node-role.kubernetes.io/b": "", "kubernetes.io/role": "a", "node-role.kubernetes.io/": ""}}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, ["n", "NotReady", "a,b", "60s", "", "<none>", "<none>", *["<unknown>"] * 3]),
    ("nodes", {}, ["n", "Unknown", "<none>", "60s", "", "<none>", "<none>", *["<unknown>"] * 3]),
    ("events", {"type": "Normal", "eventTime": "2026-11-15T11:59:00.000000Z", "involvedObject": {"kind": "Pod"}, "message": " hi ", "reportingComponent": "c"}, ["60s", "Normal", "", "pod", "", "c", "hi", "60s", 1, "n"]),
    ("events.events.k8s.io", {"regarding": {"kind": "Pod", "name": "p", "fieldPath": "f"}, "note": "hi", "deprecatedSource": {"component": "c", "host": "h"}, "series": {"count": 4, "lastObservedTime": "2026-11-15T11:59:00Z"}}, ["60s", "", "", "pod/p", "f", "c, h", "hi", "<unknown>", 4, "n"]),
    ("mutatingwebhookconfigurations.admissionregistration.k8s.io", {"webhooks": [{}, {}]}, ["n", 2, "60s"]),
    ("configmaps", {"data": {"a": ""}, "binaryData": {"b": ""}}, ["n", 2, "60s"]),
    ("serviceaccounts", {"secrets": [{}]}, ["n", 1, "60s"]),
    ("persistentvolumes", {"spec": {"capacity": {"storage": "1024Mi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"], "claimRef": {"namespace": "a", "name": "b"}, "storageClassName": "s"}, "status": {"phase": "Bound"}}, ["n", "1Gi", "RWO,RWX", "", "Bound", "a/b", "s", "<unset>", "", "60s", "<unset>"]),
    ("persistentvolumeclaims", {"metadata": {**_META, "deletionTimestamp": "x", "annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}, "spec": {"volumeName": "v", "volumeMode": "Block"}, "status": {"accessModes": ["ReadOnlyMany"]}}, ["n", "Terminating", "v", "0", "ROX", "old", "<unset>", "60s", "Block"]),
    ("persistentvolumeclaims", {"status": {"phase": "Pending"}}, ["n", "Pending", "", "", "", "", "<unset>", "60s", "<unset>"]),
    ("storageclasses.storage.k8s.io", {"metadata": {**_META, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "p"}, ["n (default)", "p", "Delete", "Immediate", False, "60s"]),
    ("rolebindings.rbac.authorization.k8s.io", {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "namespace": "a", "name": "s"}, {"kind": "User", "name": "v"}]}, ["n", "Role/r", "60s", "u, v", "g", "a/s"]),
    ("leases.coordination.k8s.io", {"spec": {"holderIdentity": "h"}}, ["n", "h", "60s"]),
    ("priorityclasses.scheduling.k8s.io", {"value": 5, "preemptionPolicy": "Never"}, ["n", 5, False, "60s", "Never"]),
    ("runtimeclasses.node.k8s.io", {"handler": "h"}, ["n", "h", "60s"]),
    ("resourcequotas", {"status": {"hard": {"pods": "2", "cpu": "1000m", "limits.cpu": "4"}, "used": {"cpu": "500m"}}}, ["n", "cpu: 500m/1, pods: 0/2", "limits.cpu: 0/4", "60s"]),
    ("componentstatuses", {"conditions": [{"type": "Healthy", "status": "False", "message": "m", "error": "e"}]}, ["n", "Unhealthy", "m", "e"]),
    ("componentstatuses", {}, ["n", "Unknown", "", ""]),
    ("horizontalpodautoscalers.autoscaling", _hpa([_CPU, _PODS, _OBJECT], [_CPU_NOW]), ["n", "Deployment/d", "cpu: 40%/50%, <unknown>/1k + 1 more...", "<unset>", 3, 0, "60s"]),
    ("horizontalpodautoscalers.autoscaling", _hpa([_EXTERNAL, _OBJECT], [_EXTERNAL_NOW]), ["n", "Deployment/d", "4/5 (avg), <unknown>/5", "<unset>", 3, 0, "60s"]),
    ("horizontalpodautoscalers.autoscaling", _hpa([{"type": "New"}]), ["n", "Deployment/d", "<unknown type>", "<unset>", 3, 0, "60s"]),
    ("horizontalpodautoscalers.autoscaling", _hpa([{"type": "Resource", "resource": {"name": "cpu", "target": {"averageValue": "1"}}}]), ["n", "Deployment/d", "cpu: <unknown>/1", "<unset>", 3, 0, "60s"]),
    ("persistentvolumes", {"spec": {"capacity": {"storage": "odd"}}}, ["n", "odd", "", "", "", "", "", "<unset>", "", "60s", "<unset>"]),
    ("horizontalpodautoscalers.autoscaling", _hpa([]), ["n", "Deployment/d", "<none>", "<unset>", 3, 0, "60s"]),
    ("replicasets.apps", {"spec": {"replicas": 4}, "status": {"replicas": 3, "readyReplicas": 2}}, ["n", 4, 3, 2, "60s", "", "", "<none>"]),
    ("replicationcontrollers", {"spec": {"replicas": 4}, "status": {"replicas": 3, "readyReplicas": 2}}, ["n", 4, 3, 2, "60s", "", "", "<none>"]),
    ("deployments.apps", {"spec": {"replicas": 4, "template": _TEMPLATE, "selector": _SELECTOR}, "status": {"readyReplicas": 3, "updatedReplicas": 2, "availableReplicas": 1}}, ["n", "3/4", 2, 1, "60s", *_WORK, "a=b"]),
    ("statefulsets.apps", {"spec": {"replicas": 4}, "status": {"readyReplicas": 3, "replicas": 2}}, ["n", "3/4", "60s", "", ""]),
    ("daemonsets.apps", {"spec": {"template": {"spec": {"nodeSelector": {"k": "v"}}}}, "status": {"desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3, "updatedNumberScheduled": 2, "numberAvailable": 1}}, ["n", 5, 4, 3, 2, 1, "k=v", "60s", "", "", "<none>"]),
    ("poddisruptionbudgets.policy", {"spec": {"maxUnavailable": 0}, "status": {"disruptionsAllowed": 2}}, ["n", "N/A", "0", 2, "60s"]),
    ("jobs.batch", {"spec": {"completions": 2}, "status": {"startTime": "2026-11-15T11:58:00Z"}}, ["n", "Running", "0/2", "2m", "60s", "", "", "<none>"]),
    ("jobs.batch", {"spec": {"parallelism": 1}, "status": {"conditions": [{"type": "Failed", "status": "True"}]}}, ["n", "Failed", "0/1", "", "60s", "", "", "<none>"]),
    ("networkpolicies.networking.k8s.io", {"spec": {"podSelector": {"matchLabels": {"b": "c", "a": "b"}}}}, ["n", "a=b,b=c", "60s"]),
    ("configmaps", {"data": {"a": "", "b": ""}, "binaryData": {"b": ""}}, ["n", 3, "60s"]),
    ("secrets", {"type": "Opaque", "data": {"a": "", "b": ""}}, ["n", "Opaque", 2, "60s"]),
    ("storageclasses.storage.k8s.io", {"provisioner": "p", "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": True}, ["n", "p", "Retain", "WaitForFirstConsumer", True, "60s"]),
    ("priorityclasses.scheduling.k8s.io", {"value": 5, "globalDefault": True}, ["n", 5, True, "60s", ""]),
    ("nodes", {"spec": {"unschedulable": True}, "status": {"conditions": [{"type": "Ready", "status": "True"}], "addresses": [{"type": "InternalIP", "address": "1.1.1.1"}, {"type": "ExternalIP", "address": "2.2.2.2"}], "nodeInfo": {"kubeletVersion": "v1", "osImage": "o", "kernelVersion": "k", "containerRuntimeVersion": "c"}}}, ["n", "Ready,SchedulingDisabled", "<none>", "60s", "v1", "1.1.1.1", "2.2.2.2", "o", "k", "c"]),
    ("horizontalpodautoscalers.autoscaling", {"spec": {"scaleTargetRef": {"kind": "D", "name": "d"}, "minReplicas": 2, "maxReplicas": 4}, "status": {"currentReplicas": 3}}, ["n", "D/d", "<none>", "2", 4, 3, "60s"]),
    ("ingresses.networking.k8s.io", {"spec": {"rules": [{"host": h} for h in "abc"]}}, ["n", "<none>", "a,b,c", "", "80", "60s"]),
    ("endpoints", {"subsets": [{"addresses": [{"ip": f"1.1.1.{n}"} for n in (1, 2, 3)], "ports": [{"port": 1}]}]}, ["n", "1.1.1.1:1,1.1.1.2:1,1.1.1.3:1", "60s"]),
    ("certificatesigningrequests.certificates.k8s.io", {"spec": {"signerName": "s", "username": "u", "expirationSeconds": 7200}, "status": {"certificate": "x", "conditions": [{"type": "Approved"}]}}, ["n", "60s", "s", "u", "120m", "Approved,Issued"]),
    ("certificatesigningrequests.certificates.k8s.io", {"spec": {"signerName": "s"}, "status": {"conditions": [{"type": "Denied"}, {"type": "Failed"}]}}, ["n", "60s", "s", "", "<none>", "Denied,Failed"]),
]  # fmt: skip

# The cells of objects without fields: bookmarks of a watch are such objects.
EMPTY: dict[str, list[Any]] = {
    "componentstatuses": ["", "Unknown", "", ""],
    "configmaps": ["", 0, "<unknown>"],
    "endpoints": ["", "<none>", "<unknown>"],
    "events": ["<unknown>", *[""] * 6, "<unknown>", 1, ""],
    "namespaces": ["", "", "<unknown>"],
    "nodes": ["", "Unknown", "<none>", "<unknown>", "", "<none>", "<none>", *["<unknown>"] * 3],
    "persistentvolumeclaims": [*[""] * 6, "<unset>", "<unknown>", "<unset>"],
    "persistentvolumes": ["", "0", *[""] * 5, "<unset>", "", "<unknown>", "<unset>"],
    "pods": ["", "0/0", "", "0", "<unknown>", *["<none>"] * 4],
    "podtemplates": ["", "", "", "<none>"],
    "replicationcontrollers": ["", 0, 0, 0, "<unknown>", "", "", "<none>"],
    "resourcequotas": ["", "", "", "<unknown>"],
    "secrets": ["", "", 0, "<unknown>"],
    "serviceaccounts": ["", 0, "<unknown>"],
    "services": ["", "", "<none>", "<unknown>", "<none>", "<unknown>", "<none>"],
    "controllerrevisions.apps": ["", "<none>", 0, "<unknown>"],
    "daemonsets.apps": ["", 0, 0, 0, 0, 0, "<none>", "<unknown>", "", "", "<none>"],
    "deployments.apps": ["", "0/0", 0, 0, "<unknown>", "", "", ""],
    "replicasets.apps": ["", 0, 0, 0, "<unknown>", "", "", "<none>"],
    "statefulsets.apps": ["", "0/0", "<unknown>", "", ""],
    "cronjobs.batch": ["", "", "<none>", "<unset>", 0, "<none>", "<unknown>", "", "", "<none>"],
    "jobs.batch": ["", "Running", "0/1", "", "<unknown>", "", "", "<none>"],
    "horizontalpodautoscalers.autoscaling": ["", "/", "<none>", "<unset>", 0, 0, "<unknown>"],
    "poddisruptionbudgets.policy": ["", "N/A", "N/A", 0, "<unknown>"],
    "certificatesigningrequests.certificates.k8s.io": ["", "<unknown>", "<none>", "", "<none>", "Pending"],
    "leases.coordination.k8s.io": ["", "", "<unknown>"],
    "endpointslices.discovery.k8s.io": ["", "", "<unset>", "<unset>", "<unknown>"],
    "events.events.k8s.io": ["<unknown>", *[""] * 6, "<unknown>", 1, ""],
    "ingresses.networking.k8s.io": ["", "<none>", "*", "", "80", "<unknown>"],
    "networkpolicies.networking.k8s.io": ["", "<none>", "<unknown>"],
    "runtimeclasses.node.k8s.io": ["", "", "<unknown>"],
    "priorityclasses.scheduling.k8s.io": ["", 0, False, "<unknown>", ""],
    "ingressclasses.networking.k8s.io": ["", "", "<none>", "<unknown>"],
    "csidrivers.storage.k8s.io": ["", True, False, False, "<unset>", False, "<none>", "<unknown>"],
    "csinodes.storage.k8s.io": ["", 0, "<unknown>"],
    "csistoragecapacities.storage.k8s.io": ["", "", "<unset>"],
    "volumeattachments.storage.k8s.io": ["", "", "", "", False, "<unknown>"],
    "volumeattributesclasses.storage.k8s.io": ["", "", "<unknown>"],
    "ipaddresses.networking.k8s.io": ["", "<none>"],
    "servicecidrs.networking.k8s.io": ["", "", "<unknown>"],
    "flowschemas.flowcontrol.apiserver.k8s.io": ["", "", 0, "<none>", "<unknown>", "?"],
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": ["", "", *["<none>"] * 4, "<unknown>"],
    "deviceclasses.resource.k8s.io": ["", "<unknown>"],
    "resourceclaims.resource.k8s.io": ["", "pending", "<unknown>"],
    "resourceclaimtemplates.resource.k8s.io": ["", "<unknown>"],
    "resourceslices.resource.k8s.io": ["", "", "", "", "<unknown>"],
    "storageclasses.storage.k8s.io": ["", "", "Delete", "Immediate", False, "<unknown>"],
    "clusterrolebindings.rbac.authorization.k8s.io": ["", "/", "<unknown>", "", "", ""],
    "rolebindings.rbac.authorization.k8s.io": ["", "/", "<unknown>", "", "", ""],
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": ["", 0, "<unknown>"],
    "validatingwebhookconfigurations.admissionregistration.k8s.io": ["", 0, "<unknown>"],
    "validatingadmissionpolicies.admissionregistration.k8s.io": ["", 0, "<unset>", "<unknown>"],
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": ["", "", "<unset>", "<unknown>"],
    SCALE: ["", 0, 0, "<unknown>"],
}


@pytest.mark.parametrize(
    ("kind", "document", "cells"), ROWS, ids=[f"{index}-{row[0]}" for index, row in enumerate(ROWS)]
)
def test_row_shows_what_kubectl_shows(kind: str, document: dict[str, Any], cells: list[Any]) -> None:
    """The cells are those of upstream's printers."""
    assert CELLS[kind]({"metadata": _META, **document}, _AGE) == cells


@pytest.mark.parametrize("kind", sorted(CELLS))
def test_row_of_an_empty_object_has_a_cell_for_each_column(kind: str) -> None:
    assert CELLS[kind]({}, _AGE) == EMPTY[kind]
    assert len(EMPTY[kind]) == len(columns_of(kind))


def test_every_column_has_all_fields() -> None:
    """A column definition without a field would not decode in Go."""
    keys = {"name", "type", "format", "description", "priority"}
    assert all(set(column) == keys for kind in (*CELLS, "") for column in columns_of(kind))
