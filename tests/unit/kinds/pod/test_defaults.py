"""Defaults of pods, field by field."""

from typing import Any

import pytest

from pykubelet.api.quantity import QuantityError
from pykubelet.kinds.pod.defaults import default_pod, default_pod_template_spec

_MODE = 0o644
_FILLED = {
    "name": "",
    "imagePullPolicy": "IfNotPresent",  # an empty image is not a reference
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "resources": {},
}
_FILE_KEY = {"key": "k", "path": "p", "volumeName": "v"}
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def _spec(spec: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = default_pod({"spec": spec})["spec"]
    return result


def _container(container: dict[str, Any], **spec: Any) -> dict[str, Any]:
    result: dict[str, Any] = _spec({**spec, "containers": [container]})["containers"][0]
    return {name: value for name, value in result.items() if _FILLED.get(name) != value}


def test_empty_pod_gets_every_default_of_a_spec() -> None:
    """These defaults do not depend on any field."""
    assert default_pod({}) == {
        "metadata": {},
        "spec": {
            "dnsPolicy": "ClusterFirst",
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "enableServiceLinks": True,
        },
        "status": {},
    }


def test_template_gets_fewer_defaults_than_a_pod() -> None:
    """The other defaults are set when a pod is created from the template."""
    limits = {"limits": {"cpu": "1"}}
    template = {
        "spec": {
            "containers": [{"image": "i", "resources": limits, "ports": [{"containerPort": 1}]}],
            "hostNetwork": True,
        }
    }
    spec = default_pod_template_spec(template)["spec"]
    assert "enableServiceLinks" not in spec
    assert spec["containers"][0]["resources"] == limits
    assert spec["containers"][0]["ports"] == [{"containerPort": 1, "protocol": "TCP"}]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"serviceAccount": "a"}, {"serviceAccount": "a", "serviceAccountName": "a"}, id="old account"),
        pytest.param(
            {"serviceAccount": "a", "serviceAccountName": "b"},
            {"serviceAccount": "b", "serviceAccountName": "b"},
            id="both accounts",
        ),
        pytest.param({"terminationGracePeriodSeconds": -3}, {"terminationGracePeriodSeconds": 1}, id="negative grace"),
        pytest.param({"terminationGracePeriodSeconds": 0}, {"terminationGracePeriodSeconds": 0}, id="no grace"),
        pytest.param({"restartPolicy": ""}, {"restartPolicy": "Always"}, id="empty policy"),
        pytest.param({"enableServiceLinks": False}, {"enableServiceLinks": False}, id="no links"),
        pytest.param({"hostNetwork": False}, {"hostNetwork": None}, id="false is dropped"),
        pytest.param({"shareProcessNamespace": False}, {"shareProcessNamespace": False}, id="false is kept"),
        pytest.param(
            {"overhead": {"cpu": 0.25, "memory": "1024Ki"}},
            {"overhead": {"cpu": "250m", "memory": "1Mi"}},
            id="overhead",
        ),
        pytest.param(
            {"securityContext": {"sysctls": [{"name": "a"}]}},
            {"securityContext": {"sysctls": [{"name": "a", "value": ""}]}},
            id="sysctls",
        ),
    ],
)
def test_spec_is_filled_in(given: dict[str, Any], expected: dict[str, Any]) -> None:
    spec = _spec(given)
    assert {name: spec.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, {"emptyDir": {}}, id="nothing"),
        pytest.param({"emptyDir": {"sizeLimit": "0.5Gi"}}, {"emptyDir": {"sizeLimit": "512Mi"}}, id="emptyDir"),
        pytest.param({"hostPath": {"path": "/x"}}, {"hostPath": {"path": "/x", "type": ""}}, id="hostPath"),
        pytest.param({"secret": {}}, {"secret": {"defaultMode": _MODE}}, id="secret"),
        pytest.param({"configMap": {"defaultMode": 0}}, {"configMap": {"defaultMode": 0}}, id="configMap"),
        pytest.param(
            {
                "downwardAPI": {
                    "items": [
                        {"path": "a", "fieldRef": {"fieldPath": "f"}},
                        {"path": "b", "resourceFieldRef": {"resource": "r"}},
                    ]
                }
            },
            {
                "downwardAPI": {
                    "defaultMode": _MODE,
                    "items": [
                        {"path": "a", "fieldRef": {"apiVersion": "v1", "fieldPath": "f"}},
                        {"path": "b", "resourceFieldRef": {"resource": "r", "divisor": "0"}},
                    ],
                }
            },
            id="downwardAPI",
        ),
        pytest.param(
            {
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"path": "t"}},
                        {"downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "f"}}]}},
                    ]
                }
            },
            {
                "projected": {
                    "defaultMode": _MODE,
                    "sources": [
                        {"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}},
                        {"downwardAPI": {"items": [{"path": "a", "fieldRef": {"apiVersion": "v1", "fieldPath": "f"}}]}},
                    ],
                }
            },
            id="projected",
        ),
        pytest.param(
            {"iscsi": {"iqn": "q"}},
            {"iscsi": {"iqn": "q", "iscsiInterface": "default", "lun": 0, "targetPortal": ""}},
            id="iscsi",
        ),
        pytest.param(
            {"rbd": {"pool": "p", "image": "i"}},
            {"rbd": {"pool": "p", "image": "i", "user": "admin", "keyring": "/etc/ceph/keyring"}},
            id="rbd",
        ),
        pytest.param(
            {"azureDisk": {"readOnly": True, "diskName": "d", "diskURI": "u"}},
            {
                "azureDisk": {
                    "diskName": "d",
                    "diskURI": "u",
                    "cachingMode": "ReadWrite",
                    "fsType": "ext4",
                    "readOnly": True,
                    "kind": "Shared",
                }
            },
            id="azureDisk",
        ),
        pytest.param(
            {"scaleIO": {"gateway": "g", "system": "s", "secretRef": {}}},
            {
                "scaleIO": {
                    "gateway": "g",
                    "system": "s",
                    "secretRef": {},
                    "storageMode": "ThinProvisioned",
                    "fsType": "xfs",
                }
            },
            id="scaleIO",
        ),
        pytest.param({"image": {"reference": "i"}}, {"image": {"reference": "i"}}, id="image: its gate is off"),
        pytest.param(
            {"ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "1024Mi"}}}}}},
            {
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "metadata": {},
                        "spec": {"volumeMode": "Filesystem", "resources": {"requests": {"storage": "1Gi"}}},
                    }
                }
            },
            id="ephemeral",
        ),
    ],
)
def test_volume_is_filled_in(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert _spec({"volumes": [{"name": "v", **given}]})["volumes"] == [{"name": "v", **expected}]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            {"ports": [{"containerPort": 1}]}, {"ports": [{"containerPort": 1, "protocol": "TCP"}]}, id="ports"
        ),
        pytest.param(
            {"livenessProbe": {"httpGet": {"port": 1, "httpHeaders": [{"name": "a"}]}, "timeoutSeconds": 0}},
            {
                "livenessProbe": {
                    **_PROBE,
                    "httpGet": {"path": "/", "scheme": "HTTP", "port": 1, "httpHeaders": [{"name": "a", "value": ""}]},
                }
            },
            id="http probe",
        ),
        pytest.param(
            {"startupProbe": {"grpc": {"port": 1}}},
            {"startupProbe": {**_PROBE, "grpc": {"port": 1, "service": ""}}},
            id="grpc probe",
        ),
        pytest.param(
            {"lifecycle": {"preStop": {"sleep": {}}, "postStart": {"httpGet": {"port": 1}}}},
            {
                "lifecycle": {
                    "preStop": {"sleep": {"seconds": 0}},
                    "postStart": {"httpGet": {"port": 1, "path": "/", "scheme": "HTTP"}},
                }
            },
            id="hooks",
        ),
        pytest.param(
            {"env": [{"name": "A", "value": ""}, {"name": "B", "valueFrom": {"fileKeyRef": _FILE_KEY}}]},
            {"env": [{"name": "A"}, {"name": "B", "valueFrom": {"fileKeyRef": {**_FILE_KEY, "optional": False}}}]},
            id="variables",
        ),
        pytest.param(
            {"resources": {"limits": {"cpu": "0.5", "memory": "1Gi"}, "requests": {"cpu": 0.0001}}},
            {"resources": {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "1m", "memory": "1Gi"}}},
            id="resources",
        ),
        pytest.param({"stdin": False, "command": [], "workingDir": ""}, {}, id="zero values"),
    ],
)
def test_container_is_filled_in(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert _container(given) == expected


def test_ports_of_the_host_are_those_of_the_container_when_they_share_a_network() -> None:
    """A given host port is kept, and a missing container port sets none."""
    ports = [{"containerPort": 1}, {"containerPort": 2, "hostPort": 3}, {}]
    assert _container({"ports": ports}, hostNetwork=True)["ports"] == [
        {"containerPort": 1, "hostPort": 1, "protocol": "TCP"},
        {"containerPort": 2, "hostPort": 3, "protocol": "TCP"},
        {"containerPort": 0, "protocol": "TCP"},
    ]


def test_pod_requests_come_from_containers_first_and_then_from_limits() -> None:
    """Sidecars count with the containers; limits of huge pages come from the containers too."""
    spec = _spec(
        {
            "resources": {"limits": {"cpu": "4", "memory": "1Gi"}},
            "containers": [{"resources": {"requests": {"cpu": "500m"}, "limits": {"hugepages-2Mi": "4Mi"}}}],
            "initContainers": [
                {"restartPolicy": "Always", "resources": {"requests": {"cpu": "250m"}}},
                {"resources": {"requests": {"cpu": "1"}}},
            ],
        }
    )
    assert spec["resources"] == {
        "limits": {"cpu": "4", "memory": "1Gi", "hugepages-2Mi": "4Mi"},
        "requests": {"cpu": "1250m", "memory": "1Gi", "hugepages-2Mi": "4Mi"},
    }


def test_pod_without_limits_keeps_its_requests_as_they_are() -> None:
    """There is nothing to derive requests from, and an empty object stays empty."""
    assert _spec({"resources": {"requests": {"cpu": "1"}}})["resources"] == {"requests": {"cpu": "1"}}
    assert _spec({"resources": {}})["resources"] == {}


def test_annotations_of_old_init_containers_are_dropped() -> None:
    """Old kubelets would still read these annotations."""
    old = {"pod.beta.kubernetes.io/init-containers": "[]", "pod.alpha.kubernetes.io/init-container-statuses": "[]"}
    assert default_pod({"metadata": {"annotations": old}})["metadata"] == {}
    assert default_pod({"metadata": {"annotations": {**old, "a": "b"}}})["metadata"] == {"annotations": {"a": "b"}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"podIP": "1"}, {"podIP": "1", "podIPs": [{"ip": "1"}]}),
        ({"podIP": "1", "podIPs": [{"ip": "2"}]}, {"podIP": "1", "podIPs": [{"ip": "1"}]}),
        ({"podIPs": [{"ip": "2"}, {"ip": "3"}]}, {"podIP": "2", "podIPs": [{"ip": "2"}, {"ip": "3"}]}),
    ],
)
def test_status_is_brought_into_form(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert default_pod({"status": given})["status"] == expected


def test_status_of_a_container_has_every_field_that_is_always_written() -> None:
    """Quantities are in canonical form, and fields that Go's types always write are present."""
    given = {"allocatedResources": {"cpu": "0.5"}, "resources": {"limits": {"cpu": 1}}, "started": False}
    assert default_pod({"status": {"containerStatuses": [given]}})["status"]["containerStatuses"] == [
        {
            "name": "",
            "image": "",
            "imageID": "",
            "state": {},
            "lastState": {},
            "ready": False,
            "restartCount": 0,
            "started": False,
            "allocatedResources": {"cpu": "500m"},
            "resources": {"limits": {"cpu": "1"}},
        }
    ]


def test_default_pod_raises_for_an_invalid_quantity() -> None:
    """The message is that of upstream."""
    with pytest.raises(QuantityError, match="quantities must match the regular expression"):
        default_pod({"spec": {"containers": [{"resources": {"limits": {"cpu": "lots"}}}]}})


def test_labels_may_have_any_key_and_an_empty_value() -> None:
    """A user's own key is never treated as a field."""
    labels = {"hostNetwork": "", "a": ""}
    assert default_pod({"metadata": {"labels": labels, "annotations": {}}})["metadata"] == {"labels": labels}
    assert _spec({"nodeSelector": labels})["nodeSelector"] == labels
