"""Validation of containers: names, ports, environment, mounts, probes, resources."""

from collections.abc import Callable
from typing import Any

import pytest

from pykubelet.kinds.pod.features import KUBELET_OPTIONS

Messages = Callable[..., list[str]]

_HANDLER = "Required value: must specify a handler type"
_HTTP = {"httpGet": {"port": 80}}
_INIT_ONLY = "Forbidden: may not be set for init containers without restartPolicy=Always"


_ONE_CONTAINER: list[tuple[str, dict[str, Any], list[str]]] = [
    ("image", {"image": " i "}, ['image: Invalid value: " i ": must not have leading or trailing whitespace']),
    (
        "policies",
        {"terminationMessagePolicy": "X", "imagePullPolicy": "Y"},
        [
            'terminationMessagePolicy: Unsupported value: "X": supported values: "File", "FallbackToLogsOnError"',
            'imagePullPolicy: Unsupported value: "Y": supported values: "Always", "IfNotPresent", "Never"',
        ],
    ),
    (
        "restart policy",
        {"restartPolicy": "Always"},
        ["restartPolicy: Forbidden: may not be set for non-init containers"],
    ),
    (
        "ports",
        {
            "ports": [
                {"name": "--", "protocol": "X"},
                {"name": "a", "containerPort": 1, "hostPort": -1},
                {"name": "a", "containerPort": 2},
            ]
        },
        [
            'ports[0].name: Invalid value: "--": must contain at least one letter (a-z)',
            'ports[0].name: Invalid value: "--": must not contain consecutive hyphens',
            'ports[0].name: Invalid value: "--": must not begin or end with a hyphen',
            "ports[0].containerPort: Required value",
            'ports[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"',
            "ports[1].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive",
            'ports[2].name: Duplicate value: "a"',
        ],
    ),
    (
        "mounts",
        {
            "volumeMounts": [
                {"name": "v", "mountPath": "/a", "subPath": "/s", "subPathExpr": "e"},
                {"name": "v", "mountPath": "/a"},
                {"name": "v"},
            ]
        },
        [
            'volumeMounts.subPath: Invalid value: "/s": must be a relative path',
            'volumeMounts[0].subPathExpr: Invalid value: "e": subPathExpr and subPath are mutually exclusive',
            'volumeMounts[1].mountPath: Invalid value: "/a": must be unique',
            "volumeMounts[2].mountPath: Required value",
        ],
    ),
    (
        "propagation",
        {
            "volumeMounts": [
                {"name": "v", "mountPath": "/a", "mountPropagation": "Bidirectional"},
                {"name": "v", "mountPath": "/b", "mountPropagation": "X"},
            ]
        },
        [
            "volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers",
            'volumeMounts.mountPropagation: Unsupported value: "X": supported values: "Bidirectional", "HostToContainer", "None"',
        ],
    ),
    (
        "recursive read only",
        {
            "volumeMounts": [
                {"name": "v", "mountPath": "/a", "recursiveReadOnly": "Enabled", "mountPropagation": "HostToContainer"},
                {"name": "v", "mountPath": "/b", "recursiveReadOnly": "X"},
                {"name": "v", "mountPath": "/c", "recursiveReadOnly": "IfPossible", "readOnly": True},
            ]
        },
        [
            "volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true",
            "volumeMounts.recursiveReadOnly: Forbidden: may only be specified when mountPropagation is None or not specified",
            'volumeMounts.recursiveReadOnly: Unsupported value: "X": supported values: "Disabled", "Enabled", "IfPossible"',
        ],
    ),
    (
        "devices",
        {
            "volumeDevices": [
                {"name": "v", "devicePath": "/x"},
                {"name": "p", "devicePath": "/x"},
                {"name": "p", "devicePath": "../y"},
                {},
            ]
        },
        [
            'volumeDevices[0].name: Invalid value: "v": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode',
            'volumeDevices[1].devicePath: Invalid value: "/x": must be unique',
            'volumeDevices[2].name: Invalid value: "p": must be unique',
            "volumeDevices[2].devicePath: Invalid value: \"../y\": can not contain backsteps ('..')",
            "volumeDevices[3].name: Required value",
            'volumeDevices[3].name: Not found: ""',
            "volumeDevices[3].devicePath: Required value",
        ],
    ),
    (
        "device and mount",
        {"volumeMounts": [{"name": "p", "mountPath": "/x"}], "volumeDevices": [{"name": "p", "devicePath": "/x"}]},
        [
            'volumeMounts[0].name: Invalid value: "p": must not already exist in volumeDevices',
            'volumeMounts[0].mountPath: Invalid value: "/x": must not already exist as a path in volumeDevices',
            'volumeDevices[0].name: Invalid value: "p": must not already exist in volumeMounts',
            'volumeDevices[0].devicePath: Invalid value: "/x": must not already exist as a path in volumeMounts',
        ],
    ),
    (
        "probes",
        {
            "livenessProbe": {"successThreshold": 2, "exec": {}, "terminationGracePeriodSeconds": 0},
            "readinessProbe": {"terminationGracePeriodSeconds": 1, **_HTTP, "grpc": {"port": 1}},
            "startupProbe": {"tcpSocket": {"port": "1"}, "initialDelaySeconds": -1},
        },
        [
            "livenessProbe.exec.command: Required value",
            "livenessProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0",
            "livenessProbe.successThreshold: Invalid value: 2: must be 1",
            "readinessProbe.grpc: Forbidden: may not specify more than 1 handler type",
            "readinessProbe.terminationGracePeriodSeconds: Invalid value: 1: must not be set for readinessProbes",
            'startupProbe.tcpSocket.port: Invalid value: "1": must contain at least one letter (a-z)',
            "startupProbe.initialDelaySeconds: Invalid value: -1: must be greater than or equal to 0",
        ],
    ),
    (
        "hooks",
        {
            "lifecycle": {
                "postStart": {},
                "preStop": {"httpGet": {"port": 0, "scheme": "FTP", "httpHeaders": [{"name": "a b"}]}},
                "stopSignal": "SIGTERM",
            }
        },
        [
            f"lifecycle.postStart: {_HANDLER}",
            "lifecycle.preStop.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
            'lifecycle.preStop.httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS"',
            "lifecycle.preStop.httpGet.httpHeaders: Invalid value: \"a b\": a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')",
            "lifecycle.stopSignal: Forbidden: may not be set for containers with empty `spec.os.name`",
        ],
    ),
    (
        "sleep",
        {"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}},
        [
            "lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)"
        ],
    ),
    (
        "resource names",
        {"resources": {"limits": {"disk": "1", "a/b/c": "1", "requests.x/y": "1"}}},
        [
            'resources.limits[disk]: Invalid value: "disk": must be a standard resource type or fully qualified',
            'resources.limits[disk]: Invalid value: "disk": must be a standard resource for containers',
            "resources.limits[a/b/c]: Invalid value: \"a/b/c\": a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
            'resources.limits[a/b/c]: Invalid value: "a/b/c": doesn\'t follow extended resource name standard',
            'resources.limits[requests.x/y]: Invalid value: "requests.x/y": doesn\'t follow extended resource name standard',
            *(
                text.replace("limits", "requests", 1)
                for text in (
                    'resources.limits[disk]: Invalid value: "disk": must be a standard resource type or fully qualified',
                    'resources.limits[disk]: Invalid value: "disk": must be a standard resource for containers',
                    "resources.limits[a/b/c]: Invalid value: \"a/b/c\": a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                    'resources.limits[a/b/c]: Invalid value: "a/b/c": doesn\'t follow extended resource name standard',
                    'resources.limits[requests.x/y]: Invalid value: "requests.x/y": doesn\'t follow extended resource name standard',
                )
            ),
        ],
    ),
    (
        "quantities",
        {"resources": {"requests": {"cpu": "-1", "example.com/gpu": "1500m"}}},
        [
            'resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
            'resources.requests[example.com/gpu]: Invalid value: "1500m": must be an integer',
            "resources.limits: Required value: Limit must be set for non overcommitable resources",
        ],
    ),
    (
        "requests and limits",
        {
            "resources": {
                "requests": {"memory": "2Gi", "example.com/gpu": "1"},
                "limits": {"memory": "1Gi", "example.com/gpu": "2"},
            }
        },
        [
            'resources.requests: Invalid value: "2Gi": must be less than or equal to memory limit of 1Gi',
            'resources.requests: Invalid value: "1": must be equal to example.com/gpu limit of 2',
        ],
    ),
    (
        "huge pages",
        {"resources": {"limits": {"hugepages-2Mi": "3Mi"}}},
        [
            'resources.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi',
            'resources.requests[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi',
            "resources: Forbidden: HugePages require cpu or memory",
        ],
    ),
    (
        "claims",
        {
            "resources": {
                "claims": [
                    {},
                    {"name": "x"},
                    {"name": "x"},
                    {"name": "y", "request": "r"},
                    {"name": "y", "request": "r"},
                    {"name": "y"},
                ]
            }
        },
        [
            "resources.claims[0]: Required value",
            'resources.claims[1]: Not found: "x": must be one of the names in pod.spec.resourceClaims: gpu, y',
            'resources.claims[2]: Duplicate value: "x"',
            'resources.claims[2]: Not found: "x": must be one of the names in pod.spec.resourceClaims: gpu, y',
            'resources.claims[4]: Duplicate value: "y/r"',
            'resources.claims[5]: Duplicate value: "y"',
        ],
    ),
    (
        "resize policy",
        {
            "resizePolicy": [
                {"resourceName": "cpu", "restartPolicy": "X"},
                {"resourceName": "cpu"},
                {"resourceName": "disk", "restartPolicy": "NotRequired"},
            ]
        },
        [
            'resizePolicy: Unsupported value: "X": supported values: "NotRequired", "RestartContainer"',
            'resizePolicy[1]: Duplicate value: "cpu"',
            "resizePolicy: Required value",
            'resizePolicy: Unsupported value: "disk": supported values: "cpu", "memory"',
        ],
    ),
]


@pytest.mark.parametrize(
    ("container", "expected"),
    [pytest.param(container, expected, id=name) for name, container, expected in _ONE_CONTAINER],
)
def test_container_is_refused_with_upstreams_words(
    messages: Messages, container: dict[str, Any], expected: list[str]
) -> None:
    spec = {
        "volumes": [{"name": "v"}, {"name": "p", "persistentVolumeClaim": {"claimName": "c"}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "g"}, {"name": "y", "resourceClaimName": "g"}],
    }
    assert messages(spec, container=container) == [f"spec.containers[0].{text}" for text in expected]


def test_kubelet_is_stricter_with_variables_and_sleep(messages: Messages) -> None:
    """All its options are off, so the older rules apply."""
    container = {"env": [{"name": "1 a"}], "lifecycle": {"preStop": {"sleep": {"seconds": 0}}}}
    assert messages(container=container) == []
    assert messages(container=container, options=KUBELET_OPTIONS) == [
        "spec.containers[0].env[0].name: Invalid value: \"1 a\": a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must not start with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for validation is '[-._a-zA-Z][-._a-zA-Z0-9]*')",
        "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 0: must be greater than 0 and less than terminationGracePeriodSeconds (30). Enable AllowPodLifecycleSleepActionZeroValue feature gate for zero sleep.",
    ]


def test_init_containers_may_not_be_probed_unless_they_are_sidecars(messages: Messages) -> None:
    """Names must differ from those of regular containers, host ports only within one container."""
    probe = {"livenessProbe": _HTTP, "readinessProbe": _HTTP, "startupProbe": _HTTP, "lifecycle": {}}
    ports = [{"containerPort": 1, "hostPort": 1}] * 2
    init = [
        {"name": "c", "image": "i", **probe, "ports": ports},
        {"name": "s", "image": "i", "restartPolicy": "Always", "livenessProbe": {}},
        {"name": "p", "image": "i", "restartPolicy": "OnFailure"},
    ]
    assert messages({"initContainers": init}) == [
        'spec.initContainers[0].name: Duplicate value: "c"',
        'spec.initContainers[0].ports[1].hostPort: Duplicate value: "TCP//1"',
        f"spec.initContainers[0].lifecycle: {_INIT_ONLY}",
        f"spec.initContainers[0].livenessProbe: {_INIT_ONLY}",
        f"spec.initContainers[0].readinessProbe: {_INIT_ONLY}",
        f"spec.initContainers[0].startupProbe: {_INIT_ONLY}",
        f"spec.initContainers[1].livenessProbe: {_HANDLER}",
        'spec.initContainers[2].restartPolicy: Unsupported value: "OnFailure": supported values: "Always"',
    ]


def test_kubelet_refuses_resize_policies_of_init_containers(messages: Messages) -> None:
    """The error shows the value with Go's field names."""
    policy = [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]
    init = [{"name": "i", "image": "i", "resizePolicy": policy}]
    assert messages({"initContainers": init}) == []
    assert messages({"initContainers": init}, options=KUBELET_OPTIONS) == [
        'spec.initContainers[0].resizePolicy: Invalid value: [{"ResourceName":"cpu","RestartPolicy":"NotRequired"}]: must not be set for init containers'
    ]


def test_ephemeral_containers_may_set_few_fields_and_never_on_create(messages: Messages) -> None:
    """Their names must differ from all others, and their target must exist."""
    spec = {
        "volumes": [{"name": "v"}],
        "ephemeralContainers": [
            {
                "name": "c",
                "image": "i ",
                "targetContainerName": "x",
                "ports": [{"containerPort": 1}],
                "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
                "volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "s"}],
            }
        ],
    }
    at, detail = "spec.ephemeralContainers[0]", "Forbidden: cannot be set for an Ephemeral Container"
    assert messages(spec) == [
        f'{at}.image: Invalid value: "i ": must not have leading or trailing whitespace',
        f'{at}.name: Duplicate value: "c"',
        f'{at}.targetContainerName: Not found: "x"',
        f"{at}.ports: {detail}",
        f"{at}.lifecycle: {detail}",
        f"{at}.volumeMounts[0].subPath: {detail}",
        "spec.ephemeralContainers: Forbidden: cannot be set on create",
    ]
