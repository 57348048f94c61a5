"""Validation of security contexts, profiles and operating systems."""

from collections.abc import Callable
from typing import Any

import pytest

from pykubelet.kinds.pod.features import KUBELET_OPTIONS

Messages = Callable[..., list[str]]

_RANGE = "must be between 0 and 2147483647, inclusive"
_ON_WINDOWS = "Forbidden: cannot be set for a windows pod"
_SHOWN = (
    '{"Capabilities":{"Add":["CAP_SYS_ADMIN"],"Drop":null},"Privileged":true,"SELinuxOptions":null,"WindowsOptions":null,"RunAsUser":null,'
    '"RunAsGroup":null,"RunAsNonRoot":null,"ReadOnlyRootFilesystem":null,"AllowPrivilegeEscalation":false,"ProcMount":null,'
    '"SeccompProfile":null,"AppArmorProfile":null}'
)


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        pytest.param(
            {"runAsUser": -1, "runAsGroup": 2**31},
            [f"runAsUser: Invalid value: -1: {_RANGE}", f"runAsGroup: Invalid value: 2147483648: {_RANGE}"],
            id="ids",
        ),
        pytest.param(
            {"procMount": "Unmasked"},
            ['procMount: Invalid value: "Unmasked": `hostUsers` must be false to use `Unmasked`'],
            id="unmasked",
        ),
        pytest.param(
            {"procMount": "X"}, ['procMount: Unsupported value: "X": supported values: "Default", "Unmasked"'], id="proc mount"
        ),
        pytest.param(
            {"allowPrivilegeEscalation": False, "privileged": True, "capabilities": {"add": ["CAP_SYS_ADMIN"]}},
            [
                f": Invalid value: {_SHOWN}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
                f": Invalid value: {_SHOWN}: cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
            ],
            id="escalation",
        ),
        pytest.param(
            {"seccompProfile": {"localhostProfile": "x"}},
            [
                "seccompProfile.type: Required value: type is required when seccompProfile is set",
                'seccompProfile.localhostProfile: Invalid value: {"Type":"","LocalhostProfile":"x"}: can only be set when seccomp type is Localhost',
            ],
            id="seccomp without type",
        ),
        pytest.param(
            {"seccompProfile": {"type": "Localhost"}},
            ["seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost"],
            id="seccomp without name",
        ),
        pytest.param(
            {"seccompProfile": {"type": "Localhost", "localhostProfile": "/x"}},
            ['seccompProfile.localhostProfile: Invalid value: "/x": must be a relative path'],
            id="seccomp path",
        ),
        pytest.param(
            {"seccompProfile": {"type": "X"}},
            ['seccompProfile.type: Unsupported value: "X": supported values: "Localhost", "RuntimeDefault", "Unconfined"'],
            id="seccomp type",
        ),
        pytest.param(
            {"appArmorProfile": {}},
            ["appArmorProfile.type: Required value: type is required when appArmorProfile is set"],
            id="apparmor without type",
        ),
        pytest.param(
            {"appArmorProfile": {"type": "X"}},
            ['appArmorProfile.type: Unsupported value: "X": supported values: "Localhost", "RuntimeDefault", "Unconfined"'],
            id="apparmor type",
        ),
        pytest.param(
            {"appArmorProfile": {"type": "Unconfined", "localhostProfile": "x"}},
            ['appArmorProfile.localhostProfile: Invalid value: "x": can only be set when AppArmor type is Localhost'],
            id="apparmor name",
        ),
        pytest.param(
            {"appArmorProfile": {"type": "Localhost", "localhostProfile": ""}},
            ["appArmorProfile.localhostProfile: Required value: must be set when AppArmor type is Localhost"],
            id="apparmor empty name",
        ),
        pytest.param(
            {"appArmorProfile": {"type": "Localhost", "localhostProfile": " " + "x" * 4095}},
            [
                f'appArmorProfile.localhostProfile: Invalid value: " {"x" * 4095}": must not be padded with whitespace',
                "appArmorProfile.localhostProfile: Too long: may not be more than 4095 bytes",
            ],
            id="apparmor long name",
        ),
        pytest.param(
            {"windowsOptions": {"gmsaCredentialSpec": "", "runAsUserName": ""}},
            [
                'windowsOptions.gmsaCredentialSpec: Invalid value: "": gmsaCredentialSpec cannot be an empty string',
                'windowsOptions.runAsUserName: Invalid value: "": runAsUserName cannot be an empty string',
            ],
            id="windows options",
        ),
        *(
            pytest.param({"windowsOptions": {"runAsUserName": name}}, [f"windowsOptions.runAsUserName: Invalid value: {shown}: {text}" for text in texts], id=f"user {index}")
            for index, (name, shown, texts) in enumerate(
                [
                    ("a\nb", '"a\\nb"', ["runAsUserName cannot contain control characters"]),
                    ("a\\b\\c", '"a\\\\b\\\\c"', ["runAsUserName cannot contain more than one backslash"]),
                    ("\\u", '"\\\\u"', ["runAsUserName's Domain doesn't match the NetBios nor the DNS format"]),
                    ("dom\\", '"dom\\\\"', ["runAsUserName's User cannot be empty"]),
                    (". .", '". ."', ["runAsUserName's User cannot contain only periods or spaces"]),
                    ("a<b", '"a\\u003cb"', ['runAsUserName\'s User cannot contain the following characters: "/\\:;|=,+*?<>@[]']),
                ]
            )
        ),
    ],
)  # fmt: skip
def test_container_context_is_refused_with_upstreams_words(
    messages: Messages, context: dict[str, Any], expected: list[str]
) -> None:
    at = "spec.containers[0].securityContext"
    texts = [f"{at}{text}" if text.startswith(":") else f"{at}.{text}" for text in expected]
    assert messages(container={"securityContext": context}) == texts


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {"securityContext": {"fsGroup": -1, "supplementalGroups": [1, -2], "fsGroupChangePolicy": "X"}},
            [
                f"securityContext.fsGroup: Invalid value: -1: {_RANGE}",
                f"securityContext.supplementalGroups[1]: Invalid value: -2: {_RANGE}",
                'securityContext.fsGroupChangePolicy: Unsupported value: "X": supported values: "Always", "OnRootMismatch"',
            ],
            id="groups",
        ),
        pytest.param(
            {"hostPID": True, "shareProcessNamespace": True},
            ["securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled"],
            id="process namespaces",
        ),
        pytest.param(
            {"securityContext": {"sysctls": [{"name": ""}, {"name": "A"}, {"name": "a.b"}, {"name": "a.b"}, {"name": "net/x"}]}, "hostNetwork": True},
            [
                "securityContext.sysctls[0].name: Required value",
                r'securityContext.sysctls[1].name: Invalid value: "A": must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$',
                'securityContext.sysctls[3].name: Duplicate value: "a.b"',
                "securityContext.sysctls[4].name: Invalid value: \"net/x\": may not be specified when 'hostNetwork' is true",
            ],
            id="sysctls",
        ),
        pytest.param(
            {"securityContext": {"sysctls": [{"name": "kernel.shmmax"}, {"name": "fs.mqueue.x"}]}, "hostIPC": True},
            [
                f"securityContext.sysctls[{index}].name: Invalid value: \"{name}\": may not be specified when 'hostIPC' is true"
                for index, name in enumerate(("kernel.shmmax", "fs.mqueue.x"))
            ],
            id="ipc sysctls",
        ),
        pytest.param(
            {"securityContext": {"supplementalGroupsPolicy": "X", "seLinuxChangePolicy": "MountOption"}},
            [
                'securityContext.supplementalGroupsPolicy: Unsupported value: "X": supported values: "Merge", "Strict"',
                'securityContext.seLinuxChangePolicy: Unsupported value: "MountOption": supported values: "Recursive"',
            ],
            id="policies",
        ),
        pytest.param(
            {"hostUsers": False, "hostNetwork": True, "hostPID": True, "hostIPC": True},
            [f"{name}: Forbidden: when `hostUsers` is false" for name in ("hostNetwork", "HostPID", "HostIPC")],
            id="user namespace",
        ),
        pytest.param({"os": {}}, ["os.name: Required value"], id="no system"),
        pytest.param({"os": {"name": "mac"}}, ['os: Unsupported value: "mac": supported values: "linux", "windows"'], id="system"),
        pytest.param(
            {"os": {"name": "linux"}, "securityContext": {"windowsOptions": {}}},
            ["securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod"],
            id="linux",
        ),
        pytest.param(
            {"os": {"name": "windows"}, "hostPID": True, "resources": {}, "securityContext": {"runAsUser": 1, "sysctls": [{"name": "a"}]}},
            [
                "resources: Forbidden: may not be set for a windows pod",
                f"hostPID: {_ON_WINDOWS}",
                f"securityContext.sysctls: {_ON_WINDOWS}",
                f"securityContext.runAsUser: {_ON_WINDOWS}",
            ],
            id="windows",
        ),
        pytest.param(
            {"securityContext": {"windowsOptions": {"hostProcess": True}}},
            ["hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers"],
            id="host process",
        ),
    ],
)  # fmt: skip
def test_pod_context_is_refused_with_upstreams_words(
    messages: Messages, spec: dict[str, Any], expected: list[str]
) -> None:
    assert messages(spec) == [f"spec.{text}" for text in expected]


def test_host_process_containers_do_not_mix(messages: Messages) -> None:
    """All containers of a pod are host processes, or none is."""
    options = {"securityContext": {"windowsOptions": {"hostProcess": False}}}
    spec = {
        "hostNetwork": True,
        "securityContext": {"windowsOptions": {"hostProcess": True}},
        "initContainers": [{"name": "i", "image": "i"}],
    }
    assert messages(spec, container=options) == [
        "spec.containers[0].securityContext.windowsOptions.hostProcess: Invalid value: false: pod hostProcess value must be identical if both are specified, was true",
        'spec: Invalid value: "": If pod contains any hostProcess containers then all containers must be HostProcess containers',
    ]


def test_kubelet_allows_every_selinux_change(messages: Messages) -> None:
    """The API server does so only with a feature gate, which is off."""
    spec = {"securityContext": {"seLinuxChangePolicy": "MountOption"}}
    assert messages(spec, options=KUBELET_OPTIONS) == []


def test_profiles_in_annotations_must_be_good_and_match_the_fields(messages: Messages) -> None:
    """Annotations are older than the fields and may not contradict them."""
    annotations = {
        "seccomp.security.alpha.kubernetes.io/pod": "x",
        "container.seccomp.security.alpha.kubernetes.io/c": "localhost/../x",
        "container.apparmor.security.beta.kubernetes.io/nobody": "x",
        "container.apparmor.security.beta.kubernetes.io/c": "localhost/a",
    }
    context = {
        "seccompProfile": {"type": "Localhost", "localhostProfile": "y"},
        "appArmorProfile": {"type": "Localhost", "localhostProfile": "b"},
    }
    spec = {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}
    at = "spec.containers[0].securityContext"
    assert messages(spec, container={"securityContext": context}, metadata={"annotations": annotations}) == [
        'metadata.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: "x": must be a valid seccomp profile',
        "metadata.annotations.container.seccomp.security.alpha.kubernetes.io/c: Invalid value: \"../x\": must not contain '..'",
        'metadata.annotations[container.apparmor.security.beta.kubernetes.io/nobody]: Invalid value: "nobody": container not found',
        'metadata.annotations[container.apparmor.security.beta.kubernetes.io/nobody]: Invalid value: "x": invalid AppArmor profile name: "x"',
        "spec.securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match",
        f"{at}.seccompProfile.localhostProfile: Forbidden: seccomp profile in annotation and field must match",
        f"{at}.appArmorProfile.localhostProfile: Forbidden: apparmor profile in annotation and field must match",
    ]  # fmt: skip
