"""Pods that are valid for the API server and the kubelet."""

from collections.abc import Callable
from typing import Any

import pytest

from pykubelet.kinds.pod.features import KUBELET_OPTIONS

Messages = Callable[..., list[str]]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_SOURCE = {"apiGroup": "g.example", "kind": "Snapshot", "name": "s"}
_NODE_TERM = {
    "matchExpressions": [
        {"key": "a", "operator": "In", "values": ["b"]},
        {"key": "a", "operator": "DoesNotExist"},
        {"key": "a", "operator": "Lt", "values": ["5"]},
    ],
    "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["node-1"]}],
}
_POD_TERM = {
    "topologyKey": "zone",
    "namespaces": ["other"],
    "matchLabelKeys": ["version"],
    "labelSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]},
}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(
            {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [_NODE_TERM]}}, "podAffinity": {_REQUIRED: [_POD_TERM]}}},
            id="affinity",
        ),
        pytest.param(
            {
                "volumes": [
                    {"name": "a", "iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2015-02.example.com:test", "initiatorName": "naa." + "0" * 32}},
                    {"name": "b", "quobyte": {"registry": "[::1]:7861,host:1", "volume": "v"}},
                    {"name": "c", "flocker": {"datasetName": "d"}},
                    {"name": "d", "fc": {"targetWWNs": ["w"], "lun": 0}},
                    {"name": "e", "azureDisk": {"diskName": "d", "diskURI": "https://x"}},
                    {"name": "f", "storageos": {"volumeName": "v", "secretRef": {"name": "s"}}},
                    {"name": "g", "ephemeral": {"volumeClaimTemplate": {"spec": {**_CLAIM, "dataSource": _SOURCE, "dataSourceRef": _SOURCE}}}},
                    {"name": "h", "projected": {"sources": [{"configMap": {"name": "m", "items": [{"key": "k", "path": "p"}]}}, {"downwardAPI": {"items": [{"path": "q", "fieldRef": {"fieldPath": "metadata.labels"}}]}}]}},
                    {"name": "i", "gcePersistentDisk": {"pdName": "d", "partition": 1}},
                    {"name": "j", "csi": {"driver": "D.example", "nodePublishSecretRef": {"name": "s"}}},
                ]
            },
            id="volumes",
        ),
        pytest.param(
            {
                "initContainers": [
                    {"name": "big", "image": "i", "resources": {"requests": {"cpu": "3", "memory": "1Mi"}}},
                    {"name": "small", "image": "i", "resources": {"requests": {"cpu": "1"}}},
                ],
                "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "4"}},
            },
            id="resources of the pod",
        ),
        pytest.param(
            {"tolerations": [{"operator": "Exists"}, {"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5}], "hostAliases": [{"ip": "::1", "hostnames": ["a.b"]}], "os": {"name": "linux"}, "nodeSelector": {"a/b": "c"}},
            id="placement",
        ),
    ],
)  # fmt: skip
def test_good_pod_has_no_error_from_server_or_kubelet(messages: Messages, spec: dict[str, Any]) -> None:
    assert messages(spec) == []
    assert messages(spec, options=KUBELET_OPTIONS) == []


def test_volume_without_a_name_gives_one_error(messages: Messages) -> None:
    """No error about the claim that would be named after the volume follows."""
    spec = {"volumes": [{"ephemeral": {"volumeClaimTemplate": {"spec": _CLAIM}}}]}
    assert messages(spec) == ["spec.volumes[0].name: Required value"]


def test_item_without_a_path_gives_one_error_each(messages: Messages) -> None:
    """Empty paths do not count as conflicting paths."""
    item = {"fieldRef": {"fieldPath": "metadata.name"}}
    sources = [{"downwardAPI": {"items": [item, item]}}, {"secret": {"name": "s", "items": [{"key": "k"}]}}]
    at = "spec.volumes[0].projected.sources"
    assert messages({"volumes": [{"name": "v", "projected": {"sources": sources}}]}) == [
        f"{at}[0].downwardAPI.path: Required value",
        f"{at}[0].downwardAPI.path: Required value",
        f"{at}[1].secret.items[0].path: Required value",
    ]
