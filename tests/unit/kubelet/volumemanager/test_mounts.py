"""Planning the mounts of a container."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.kubelet.volumemanager.errors import ContainerConfigError
from pykubelet.kubelet.volumemanager.mounts import PlannedMount, ReadyVolume, plan_mounts, wants_hosts_file
from volume_pods import container, pod_with

VOLUMES = {"data": ReadyVolume("/root/data"), "config": ReadyVolume("/root/config", read_only=True)}


def planned(*mounts: dict[str, Any], **environment: str) -> tuple[PlannedMount, ...]:
    return plan_mounts(container(volumeMounts=list(mounts)), VOLUMES, environment)


def test_mounts_are_resolved() -> None:
    """Paths become absolute, read-only volumes stay read-only, and subpaths are expanded and cleaned."""
    found = planned(
        {"name": "data", "mountPath": "/data", "mountPropagation": "HostToContainer"},
        {"name": "config", "mountPath": "etc"},
        {"name": "data", "mountPath": "/part", "subPathExpr": "logs//$(POD)", "readOnly": True},
        POD="web",
    )
    shown = [
        (m.volume, m.index, m.volume_path, m.sub_path, m.container_path, m.read_only, m.propagation) for m in found
    ]
    assert shown == [
        ("data", 0, "/root/data", "", "/data", False, "HostToContainer"),
        ("config", 1, "/root/config", "", "/etc", True, "None"),
        ("data", 2, "/root/data", "logs/web", "/part", True, "None"),
    ]


RECURSIVE = (
    'failed to resolve recursive read-only mode: volume "data" requested recursive read-only mode, but it is not'
)
PROBLEMS: list[Any] = [
    ({"name": "none"}, 'cannot find volume "none" to mount into container "main"'),
    ({"subPath": "/etc"}, "error SubPath `/etc` must not be an absolute path"),
    ({"subPath": "a/../b"}, "unable to provision SubPath `a/../b`: must not contain '..'"),
    ({"subPath": "a\0"}, "unable to provision SubPath: must not contain a NUL byte"),
    ({"subPathExpr": "$(UP)"}, "unable to provision SubPath `../x`: must not contain '..'"),
    ({"subPathExpr": "$(NONE)"}, "missing value for NONE"),
    ({"mountPath": "/\0"}, 'the mountPath of volume "data" must not contain a NUL byte'),
    ({"mountPropagation": "Sideways"}, 'invalid MountPropagation mode: "Sideways"'),
    ({"recursiveReadOnly": "Enabled"}, f"{RECURSIVE} read-only"),
    (
        {"recursiveReadOnly": "Enabled", "readOnly": True, "mountPropagation": "Bidirectional"},
        f'{RECURSIVE} compatible with propagation "Bidirectional"',
    ),
    ({"recursiveReadOnly": "Enabled", "readOnly": True}, f"{RECURSIVE} supported by the runtime"),
    (
        {"recursiveReadOnly": "Perhaps", "readOnly": True},
        'failed to resolve recursive read-only mode: unknown recursive read-only mode "Perhaps"',
    ),
]


@pytest.mark.parametrize(("fields", "complaint"), PROBLEMS)
def test_impossible_mount_is_an_error_with_its_cause(fields: dict[str, Any], complaint: str) -> None:
    """The errors are upstream's where it has one."""
    with pytest.raises(ContainerConfigError) as caught:
        planned({"name": "data", "mountPath": "/m", **fields}, UP="../x")
    assert str(caught.value) == complaint


def test_recursive_read_only_is_left_out_when_it_is_optional() -> None:
    """The modes IfPossible and Disabled give a plain read-only mount."""
    for mode in ("IfPossible", "Disabled"):
        assert planned({"name": "data", "mountPath": "/m", "recursiveReadOnly": mode, "readOnly": True})[0].read_only


def test_block_device_is_refused() -> None:
    """This node does not support block devices."""
    devices = container(volumeDevices=[{"name": "disk", "devicePath": "/dev/x"}])
    with pytest.raises(ContainerConfigError, match=r'^cannot find volume "disk" to pass into container "main"$'):
        plan_mounts(devices, VOLUMES, {})


@pytest.mark.parametrize(
    ("ips", "host_network", "own", "expected"),
    [
        ((), False, False, False),
        (("1.2.3.4",), False, False, True),
        ((), True, False, True),
        (("1.2.3.4",), True, True, False),
    ],
)
def test_hosts_file_is_managed_when_the_pod_has_a_network(
    ips: tuple[str, ...], host_network: bool, own: bool, expected: bool
) -> None:
    """It has addresses or the host network, and the container mounts no hosts file of its own."""
    mounts = [{"name": "data", "mountPath": "/etc/hosts"}] if own else []
    pod = pod_with(hostNetwork=host_network)
    assert wants_hosts_file(pod, container(volumeMounts=mounts), ips) is expected


@settings(max_examples=200)
@given(st.text(alphabet="a./$()A", max_size=8), st.text(alphabet="a./", max_size=4))
def test_part_of_a_volume_never_leads_out(expression: str, value: str) -> None:
    """This holds for any expanded value."""
    try:
        (found,) = planned({"name": "data", "mountPath": "/m", "subPathExpr": expression}, A=value)
    except ContainerConfigError:
        return
    assert not found.sub_path.startswith("/")
    assert ".." not in found.sub_path.split("/")
