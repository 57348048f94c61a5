"""Validation of volumes, source by source."""

from collections.abc import Callable
from typing import Any

import pytest

from pykubelet.kinds.pod.features import KUBELET_OPTIONS

Messages = Callable[..., list[str]]

_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_PAIRS = "must be a host:port pair or multiple pairs separated by commas"
_ONE_SOURCE: list[tuple[dict[str, Any], list[str]]] = [
    ({"hostPath": {}}, ["hostPath.path: Required value"]),
    (
        {"hostPath": {"path": "/a/../b", "type": "Dir"}},
        [
            "hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
            (
                'hostPath.type: Unsupported value: "Dir": supported values: "", "BlockDevice", "CharDevice", "Directory", '
                '"DirectoryOrCreate", "File", "FileOrCreate", "Socket"'
            ),
        ],
    ),
    (
        {"emptyDir": {"sizeLimit": "-1"}},
        ["emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"],
    ),
    (
        {"gitRepo": {"directory": "/x"}},
        ["gitRepo.repository: Required value", 'gitRepo.directory: Invalid value: "/x": must be a relative path'],
    ),
    (
        {"gcePersistentDisk": {"partition": 256}},
        [
            "persistentDisk.pdName: Required value",
            "persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive",
        ],
    ),
    (
        {"awsElasticBlockStore": {"partition": -1}},
        [
            "awsElasticBlockStore.volumeID: Required value",
            "awsElasticBlockStore.partition: Invalid value: -1: must be between 1 and 255, inclusive",
        ],
    ),
    (
        {"secret": {"defaultMode": 512, "items": [{"key": "", "path": "..x", "mode": -1}]}},
        [
            "secret.secretName: Required value",
            f"secret.defaultMode: Invalid value: 512: {_MODE}",
            "secret.items[0].key: Required value",
            "secret.items[0].path: Invalid value: \"..x\": must not start with '..'",
            f"secret.items[0].mode: Invalid value: -1: {_MODE}",
        ],
    ),
    (
        {"configMap": {"items": [{"key": "k"}]}},
        ["configMap.name: Required value", "configMap.items[0].path: Required value"],
    ),
    (
        {"nfs": {}},
        [
            "nfs.server: Required value",
            "nfs.path: Required value",
            'nfs.path: Invalid value: "": must be an absolute path',
        ],
    ),
    (
        {"iscsi": {"lun": 256, "chapAuthSession": True, "iqn": "abc", "initiatorName": "iqn.bad"}},
        [
            "iscsi.targetPortal: Required value",
            'iscsi.iqn: Invalid value: "abc": must be valid format starting with iqn, eui, or naa',
            "iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive",
            "iscsi.secretRef: Required value",
            'iscsi.initiatorname: Invalid value: "iqn.bad": must be valid format',
        ],
    ),
    (
        {
            "iscsi": {
                "targetPortal": "p" * 70,
                "iqn": "eui.0123456789abcdef",
                "initiatorName": "iqn.2015-02.example.com:a",
            }
        },
        [
            (
                'name: Invalid value: "v": Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if '
                "iscsi.initiatorName is specified."
            )
        ],
    ),
    ({"glusterfs": {}}, ["glusterfs.endpoints: Required value", "glusterfs.path: Required value"]),
    ({"flocker": {}}, ["flocker: Required value: one of datasetName and datasetUUID is required"]),
    (
        {"flocker": {"datasetName": "a/b", "datasetUUID": "u"}},
        [
            'flocker: Invalid value: "resource": datasetName and datasetUUID can not be specified simultaneously',
            "flocker.datasetName: Invalid value: \"a/b\": must not contain '/'",
        ],
    ),
    ({"persistentVolumeClaim": {}}, ["persistentVolumeClaim.claimName: Required value"]),
    ({"rbd": {}}, ["rbd.monitors: Required value", "rbd.image: Required value"]),
    ({"cinder": {"secretRef": {}}}, ["cinder.volumeID: Required value", "cinder.secretRef.name: Required value"]),
    ({"cephfs": {}}, ["cephfs.monitors: Required value"]),
    ({"quobyte": {}}, [f"quobyte.registry: Required value: {_PAIRS}", "quobyte.volume: Required value"]),
    (
        {"quobyte": {"registry": "a:1,b,[::1]:2,[::1],a:b:1", "volume": "v"}},
        [f'quobyte.registry: Invalid value: "a:1,b,[::1]:2,[::1],a:b:1": {_PAIRS}'] * 3,
    ),
    (
        {"quobyte": {"registry": "a:1", "volume": "v", "tenant": "t" * 65}},
        ["quobyte.tenant: Required value: must be a UUID and may not exceed a length of 64 characters"],
    ),
    (
        {"downwardAPI": {"items": [{"path": "a"}, {"path": "/b", "fieldRef": {"fieldPath": "status.phase"}}]}},
        [
            "downwardAPI: Required value: one of fieldRef and resourceFieldRef is required",
            'downwardAPI.path: Invalid value: "/b": must be a relative path',
            (
                'downwardAPI.fieldRef.fieldPath: Unsupported value: "status.phase": supported values: "metadata.annotations", '
                '"metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"'
            ),
        ],
    ),
    (
        {"fc": {}},
        ["fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"],
    ),
    (
        {"fc": {"targetWWNs": ["a"], "wwids": ["b"]}},
        [
            'fc.targetWWNs: Invalid value: ["a"]: targetWWNs and wwids can not be specified simultaneously',
            "fc.lun: Required value: lun is required if targetWWNs is specified",
        ],
    ),
    (
        {"fc": {"targetWWNs": ["a"], "lun": 256}},
        ["fc.lun: Invalid value: 256: must be between 0 and 255, inclusive"],
    ),
    (
        {"flexVolume": {"options": {"a.Kubernetes.io/x": "", "b": "", "k8s.io": ""}}},
        [
            "flexVolume.driver: Required value",
            (
                'flexVolume.options[a.Kubernetes.io/x]: Invalid value: "a.Kubernetes.io/x": kubernetes.io and k8s.io namespaces '
                "are reserved"
            ),
            'flexVolume.options[k8s.io]: Invalid value: "k8s.io": kubernetes.io and k8s.io namespaces are reserved',
        ],
    ),
    ({"azureFile": {}}, ["azureFile.secretName: Required value", "azureFile.shareName: Required value"]),
    ({"vsphereVolume": {}}, ["vsphereVolume.volumePath: Required value"]),
    ({"photonPersistentDisk": {}}, ["photonPersistentDisk.pdID: Required value"]),
    ({"portworxVolume": {}}, ["portworxVolume.volumeID: Required value"]),
    (
        {"azureDisk": {"diskName": "d", "diskURI": "x", "cachingMode": "Some", "kind": "Managed"}},
        [
            'azureDisk.cachingMode: Unsupported value: "Some": supported values: "None", "ReadOnly", "ReadWrite"',
            (
                'azureDisk.diskURI: Unsupported value: "x": supported values: "/subscriptions/{sub-id}/resourcegroups/'
                '{group-name}/providers/microsoft.compute/disks/{disk-id}"'
            ),
        ],
    ),
    (
        {"azureDisk": {"diskName": "d", "diskURI": "x", "kind": "Other"}},
        [
            'azureDisk.kind: Unsupported value: "Other": supported values: "Dedicated", "Managed", "Shared"',
            (
                'azureDisk.diskURI: Unsupported value: "x": supported values: "https://{account-name}.blob.core.windows.net/'
                '{container-name}/{disk-name}.vhd"'
            ),
        ],
    ),
    (
        {"storageos": {"secretRef": {}}},
        ["storageos.volumeName: Required value", "storageos.secretRef.name: Required value"],
    ),
    (
        {"scaleIO": {}},
        ["scaleIO.gateway: Required value", "scaleIO.system: Required value", "scaleIO.volumeName: Required value"],
    ),
    (
        {"csi": {"driver": "D_x", "nodePublishSecretRef": {"name": "S"}}},
        [f'csi.driver: Invalid value: "D_x": {_SUBDOMAIN}', f'csi.name: Invalid value: "S": {_SUBDOMAIN}'],
    ),
    (
        {"csi": {"driver": "d" * 64, "nodePublishSecretRef": {}}},
        ["csi.driver: Too long: may not be more than 63 bytes", "csi.nodePublishSecretRef.name: Required value"],
    ),
    ({"ephemeral": {}}, ["ephemeral.volumeClaimTemplate: Required value"]),
    ({"image": {}}, ["image.reference: Required value", "image.pullPolicy: Required value"]),
    (
        {"image": {"reference": "i", "pullPolicy": "Some"}},
        ['image.pullPolicy: Unsupported value: "Some": supported values: "Always", "IfNotPresent", "Never"'],
    ),
]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(source, expected, id=f"{next(iter(source))} {index}")
        for index, (source, expected) in enumerate(_ONE_SOURCE)
    ],
)
def test_volume_source_is_refused_with_upstreams_words(
    messages: Messages, source: dict[str, Any], expected: list[str]
) -> None:
    assert messages({"volumes": [{"name": "v", **source}]}) == [f"spec.volumes[0].{text}" for text in expected]


def test_image_volume_needs_no_reference_in_the_kubelet(messages: Messages) -> None:
    """The kubelet leaves this check to the API server."""
    spec = {"volumes": [{"name": "v", "image": {"pullPolicy": "Never"}}]}
    assert messages(spec, options=KUBELET_OPTIONS) == []


def test_second_source_is_forbidden_under_the_name_upstream_gives_it(messages: Messages) -> None:
    """Upstream misspells two of the names, and so do we."""
    volume = {"name": "v", "emptyDir": {}, "cephfs": {}, "downwardAPI": {}, "iscsi": {}}
    assert messages({"volumes": [volume]}) == [
        f"spec.volumes[0].{name}: Forbidden: may not specify more than 1 volume type"
        for name in ("iscsi", "cephFS", "downwarAPI")
    ]


def test_volume_names_must_be_labels_and_differ(messages: Messages) -> None:
    """A volume with an invalid name does not make a later one a duplicate."""
    assert messages({"volumes": [{"name": "_X"}, {}, {"name": "a"}, {"name": "a"}]}) == [
        f'spec.volumes[0].name: Invalid value: "_X": {_LABEL}',
        "spec.volumes[1].name: Required value",
        'spec.volumes[3].name: Duplicate value: "a"',
    ]


def test_mount_does_not_find_a_volume_that_has_a_fault(messages: Messages) -> None:
    """One mistake gives two errors: at the volume and at its mount."""
    spec = {"volumes": [{"name": "v", "hostPath": {}}]}
    assert messages(spec, container={"volumeMounts": [{"name": "v", "mountPath": "/x"}]}) == [
        "spec.volumes[0].hostPath.path: Required value",
        'spec.containers[0].volumeMounts[0].name: Not found: "v"',
    ]
