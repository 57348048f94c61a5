"""Security contexts in CRI terms: users, groups, profiles and namespaces."""

from typing import Any

import pytest
from cri_api.v1 import api_pb2 as cri
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import (
    AppArmorProfile,
    Capabilities,
    Pod,
    PodSecurityContext,
    SeccompProfile,
    SecurityContext,
    SELinuxOptions,
)
from pykubelet.runtimes.cri.host import CriHost
from pykubelet.runtimes.cri.security_context import container_security, namespaces, sandbox_security
from pykubelet.runtimes.protocol import RuntimeFailure
from pykubelet.testing import build

MACHINE = CriHost(seccomp_root="/seccomp", throttle_paths=("/sys/devices/system/cpu/cpu0/thermal_throttle",))
PROFILE = cri.SecurityProfile


def made(
    pod: PodSecurityContext | None = None,
    container: SecurityContext | None = None,
    *,
    image_user: str = "0",
    annotations: dict[str, str] | None = None,
    host: CriHost = MACHINE,
) -> cri.LinuxContainerSecurityContext:
    main = build.container(security_context=container)
    whole = build.pod(containers=(main,), security_context=pod, annotations=annotations)
    return container_security(whole, main, host, image_user=image_user)


@pytest.mark.parametrize(
    ("pod", "container", "image_user", "expected"),
    [
        (None, None, "0", (0, "")),
        (None, None, "1000", (1000, "")),
        (None, None, "worker", (None, "worker")),
        (5, None, "worker", (5, "")),
        (5, 6, "worker", (6, "")),
        (5, 0, "1000", (0, "")),
    ],
)
def test_user_is_that_of_the_container_then_the_pod_then_the_image(
    pod: int | None, container: int | None, image_user: str, expected: tuple[int | None, str]
) -> None:
    """Zero is a valid user."""
    found = made(PodSecurityContext(run_as_user=pod), SecurityContext(run_as_user=container), image_user=image_user)
    assert (found.run_as_user.value if found.HasField("run_as_user") else None, found.run_as_username) == expected


@settings(max_examples=50)
@given(pod=st.none() | st.integers(0, 9), container=st.none() | st.integers(0, 9))
def test_group_of_the_container_goes_before_the_pods(pod: int | None, container: int | None) -> None:
    """Without either no group is set."""
    found = made(PodSecurityContext(run_as_group=pod), SecurityContext(run_as_group=container))
    expected = pod if container is None else container
    assert (found.run_as_group.value if found.HasField("run_as_group") else None) == expected


def test_sandbox_has_a_group_only_with_a_user() -> None:
    """Runtimes refuse a group without a user, and sandboxes do not need one."""
    alone = sandbox_security(build.pod(security_context=PodSecurityContext(run_as_group=7)))
    both = sandbox_security(build.pod(security_context=PodSecurityContext(run_as_group=7, run_as_user=8)))
    assert (alone.HasField("run_as_group"), both.run_as_group.value, both.run_as_user.value) == (False, 7, 8)
    assert both.seccomp.profile_type == PROFILE.RuntimeDefault


def test_groups_of_the_pod_are_the_containers() -> None:
    """The fsGroup comes first; `Strict` ignores the groups of the image."""
    context = PodSecurityContext(fs_group=1, supplemental_groups=(2, 3), supplemental_groups_policy="Strict")
    for found in (made(context), sandbox_security(build.pod(security_context=context))):
        assert list(found.supplemental_groups) == [1, 2, 3]
        assert found.supplemental_groups_policy == cri.Strict
    assert made().supplemental_groups_policy == cri.Merge


@pytest.mark.parametrize(
    ("pod", "container", "default", "expected"),
    [
        (None, None, False, (PROFILE.Unconfined, "")),
        (None, None, True, (PROFILE.RuntimeDefault, "")),
        (SeccompProfile(type="RuntimeDefault"), None, False, (PROFILE.RuntimeDefault, "")),
        (
            SeccompProfile(type="RuntimeDefault"),
            SeccompProfile(type="Unconfined"),
            True,
            (PROFILE.Unconfined, ""),
        ),
        (
            None,
            SeccompProfile(type="Localhost", localhost_profile="a/b.json"),
            False,
            (PROFILE.Localhost, "/seccomp/a/b.json"),
        ),
    ],
)
def test_seccomp_is_the_containers_then_the_pods_then_the_nodes(
    pod: SeccompProfile | None, container: SeccompProfile | None, default: bool, expected: tuple[Any, str]
) -> None:
    """Localhost profiles are below the node's seccomp folder."""
    found = made(
        PodSecurityContext(seccomp_profile=pod),
        SecurityContext(seccomp_profile=container),
        host=CriHost(seccomp_root="/seccomp", seccomp_default=default),
    )
    assert (found.seccomp.profile_type, found.seccomp.localhost_ref) == expected


def test_seccomp_profile_without_a_name_is_refused() -> None:
    """The container would run unconfined."""
    with pytest.raises(RuntimeFailure, match="localhostProfile must be set"):
        made(PodSecurityContext(seccomp_profile=SeccompProfile(type="Localhost")))


@pytest.mark.parametrize("kind", ["", "runtimeDefault", "Confined"])
def test_profile_of_a_kind_nobody_knows_is_refused(kind: str) -> None:
    """Upstream runs such a container unconfined."""
    with pytest.raises(RuntimeFailure, match="there is no seccomp or AppArmor profile"):
        made(PodSecurityContext(seccomp_profile=SeccompProfile(type=kind)))


@pytest.mark.parametrize(
    ("pod", "container", "annotation", "expected"),
    [
        (None, None, "", (False, PROFILE.RuntimeDefault, "", "")),
        (AppArmorProfile(type="RuntimeDefault"), None, "", (True, PROFILE.RuntimeDefault, "", "runtime/default")),
        (AppArmorProfile(type="RuntimeDefault"), None, "unconfined", (True, PROFILE.Unconfined, "", "unconfined")),
        (
            None,
            AppArmorProfile(type="Localhost", localhost_profile="mine"),
            "unconfined",
            (True, PROFILE.Localhost, "mine", "localhost/mine"),
        ),
    ],
    ids=["none", "pod", "annotation", "container"],
)
def test_app_armor_profile_is_set_in_both_fields(
    pod: AppArmorProfile | None, container: AppArmorProfile | None, annotation: str, expected: tuple[Any, ...]
) -> None:
    """Old runtimes only know the second field."""
    annotations = {"container.apparmor.security.beta.kubernetes.io/main": annotation}
    found = made(
        PodSecurityContext(app_armor_profile=pod),
        SecurityContext(app_armor_profile=container),
        annotations=annotations,
    )
    told = found.HasField("apparmor"), found.apparmor.profile_type, found.apparmor.localhost_ref, found.apparmor_profile
    assert told == expected


def test_rest_of_a_security_context_is_handed_on() -> None:
    """Covers each remaining field, and the defaults."""
    context = SecurityContext(
        privileged=True,
        read_only_root_filesystem=True,
        allow_privilege_escalation=False,
        capabilities=Capabilities(add=("NET_ADMIN",), drop=("ALL",)),
        se_linux_options=SELinuxOptions(level="s0:c1"),
    )
    found = made(PodSecurityContext(se_linux_options=SELinuxOptions(level="s0")), context)
    assert (found.privileged, found.readonly_rootfs, found.no_new_privs) == (True, True, True)
    assert (list(found.capabilities.add_capabilities), list(found.capabilities.drop_capabilities)) == (
        ["NET_ADMIN"],
        ["ALL"],
    )
    assert found.selinux_options.level == "s0:c1"
    bare = made()
    assert (bare.privileged, bare.readonly_rootfs, bare.no_new_privs, bare.HasField("capabilities")) == (
        *(False, False, False),
        False,
    )
    assert {"/proc/kcore", *MACHINE.throttle_paths} <= set(bare.masked_paths)
    assert "/proc/sys" in bare.readonly_paths


def test_proc_may_be_unmasked() -> None:
    """No path is masked or read-only."""
    found = made(None, SecurityContext(proc_mount="Unmasked"))
    assert (list(found.masked_paths), list(found.readonly_paths)) == ([], [])


@pytest.mark.parametrize(
    ("spec", "target", "expected"),
    [
        ({}, "", (cri.POD, cri.CONTAINER, cri.POD, "")),
        ({"host_network": True, "host_ipc": True, "host_pid": True}, "", (cri.NODE, cri.NODE, cri.NODE, "")),
        ({"share_process_namespace": True}, "c", (cri.POD, cri.POD, cri.POD, "")),
        ({}, "c", (cri.POD, cri.TARGET, cri.POD, "c")),
        ({"host_pid": True}, "c", (cri.POD, cri.NODE, cri.POD, "")),
        ({"host_users": True}, "", (cri.POD, cri.CONTAINER, cri.POD, "")),
    ],
)
def test_namespaces_follow_the_pod_spec(spec: dict[str, Any], target: str, expected: tuple[Any, ...]) -> None:
    """A debug container shares the processes of its target, unless the pod or node already shares them."""
    found = namespaces(build.pod(**spec), target)
    assert (found.network, found.pid, found.ipc, found.target_id) == expected


def test_users_of_its_own_are_refused() -> None:
    """Ignoring hostUsers=false would give the pod less isolation than requested."""
    with pytest.raises(RuntimeFailure, match="hostUsers"):
        namespaces(build.pod(host_users=False))


def test_sandbox_is_privileged_if_a_container_is() -> None:
    """CRI requires it for privileged containers."""
    main = build.container(security_context=SecurityContext(privileged=True))
    pod: Pod = build.pod(containers=(build.container("other"), main))
    assert (sandbox_security(pod).privileged, sandbox_security(build.pod()).privileged) == (True, False)
