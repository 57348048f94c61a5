"""What processes see inside a container: user, groups, capabilities, namespaces, files and names."""

from pathlib import Path

import pytest

import oci_images
from cri_lab import CriLab
from pykubelet.api.generated.core import (
    Capabilities,
    PodDNSConfig,
    PodDNSConfigOption,
    PodSecurityContext,
    SeccompProfile,
    SecurityContext,
    Sysctl,
)
from pykubelet.runtimes.cri.connect import OpenCri
from pykubelet.runtimes.protocol import ContainerState, Mount, RuntimeFailure

OURS = [str(Path(f"/proc/self/ns/{name}").readlink()) for name in ("net", "pid", "ipc")]
STATUS = "grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t'"


@pytest.mark.parametrize(
    ("image", "pod", "container", "expected"),
    [
        (oci_images.BUSYBOX, None, None, "uid=0(root) gid=0(root) groups=0(root)"),
        (oci_images.NUMBERED_USER, None, None, "uid=1000(worker) gid=1000(worker) groups=1000(worker)"),
        (oci_images.NAMED_USER, None, None, "uid=1000(worker) gid=1000(worker) groups=1000(worker)"),
        (
            oci_images.BUSYBOX,
            PodSecurityContext(run_as_user=1234, run_as_group=77, fs_group=88, supplemental_groups=(99,)),
            None,
            "uid=1234 gid=77 groups=77,88,99",
        ),
        (oci_images.NAMED_USER, PodSecurityContext(run_as_group=77), None, "uid=1000(worker) gid=77 groups=77"),
        (
            oci_images.BUSYBOX,
            PodSecurityContext(run_as_user=1234),
            SecurityContext(run_as_user=65534),
            "uid=65534(nobody) gid=65534(nogroup) groups=65534(nogroup)",
        ),
    ],
    ids=["image without", "number in image", "name in image", "pod", "group only", "container before pod"],
)
async def test_container_runs_as_the_right_user(
    lab: CriLab, image: str, pod: PodSecurityContext | None, container: SecurityContext | None, expected: str
) -> None:
    """The container's setting overrides the pod's, and the pod's overrides the image's."""
    container_id = await lab.run_shell(
        "sleep 1000", image=image, pod={"security_context": pod}, security_context=container
    )
    (told,) = await lab.tell(container_id, "id")
    # The image's group database may add supplementary groups.
    assert told.replace(",2000(extra)", "").removesuffix(" groups=2000(extra)") == expected


async def test_container_may_do_what_its_security_context_says(lab: CriLab) -> None:
    """Capabilities, no_new_privs and seccomp are read from /proc."""
    plain = await lab.run_shell("sleep 1000")
    none = SecurityContext(
        capabilities=Capabilities(drop=("ALL",), add=("NET_BIND_SERVICE",)),
        allow_privilege_escalation=False,
        seccomp_profile=SeccompProfile(type="RuntimeDefault"),
    )
    confined = await lab.run_shell("sleep 1000", security_context=none)
    assert await lab.tell(plain, STATUS) == ["CapEff:00000000a80425fb", "NoNewPrivs:0", "Seccomp:2"]
    assert await lab.tell(confined, STATUS) == ["CapEff:0000000000000400", "NoNewPrivs:1", "Seccomp:2"]


async def test_root_file_system_may_be_read_only(lab: CriLab, tmp_path: Path) -> None:
    """Volumes stay writable unless they are mounted read-only."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    mounts = (
        Mount(host_path=str(tmp_path / "one"), container_path="/one"),
        Mount(host_path=str(tmp_path / "two"), container_path="/two", read_only=True),
    )
    context = SecurityContext(read_only_root_filesystem=True)
    _, container_id = await lab.start("sleep", "1000", mounts=mounts, security_context=context)
    script = "for d in / /one /two; do touch $d/file 2>/dev/null && echo $d; done"
    assert await lab.tell(container_id, script) == ["/one"]
    assert (tmp_path / "one/file").exists()


async def test_secrets_of_the_kernel_are_masked_unless_the_pod_wants_them(lab: CriLab) -> None:
    """Paths in /proc are masked or read-only, unless procMount is Unmasked."""
    masked = await lab.run_shell("sleep 1000")
    # Without user namespaces only a privileged container may be unmasked.
    bare = await lab.run_shell("sleep 1000", security_context=SecurityContext(proc_mount="Unmasked"))
    script = "grep -cE ' /proc/(kcore|keys|timer_list|sys|irq) ' /proc/mounts"
    (count,) = await lab.tell(masked, script)
    assert int(count) >= 4
    assert await lab.tell(bare, script) == ["0"]


async def test_pod_has_its_own_namespaces_or_those_of_the_host(lab: CriLab) -> None:
    """The network, PID and IPC namespaces are checked."""
    script = "for n in net pid ipc; do readlink /proc/self/ns/$n; done"
    apart = await lab.run_shell("sleep 1000")
    shared = await lab.run_shell("sleep 1000", pod={"host_network": True, "host_pid": True, "host_ipc": True})
    assert not set(OURS) & set(await lab.tell(apart, script))
    assert await lab.tell(shared, script) == OURS


async def test_containers_share_processes_if_the_pod_says_so(lab: CriLab) -> None:
    """A debug container can instead target the PID namespace of one container."""
    pod = lab.pod("sleep", "1234", pod={"share_process_namespace": True})
    sandbox_id = await lab.sandbox(pod)
    container_id = await lab.add(pod, sandbox_id)
    assert await lab.tell(container_id, "readlink /proc/1/ns/pid") == await lab.tell(
        container_id, "readlink /proc/self/ns/pid"
    )
    assert "sleep 1234" not in await lab.tell(container_id, "tr '\\0' ' ' < /proc/1/cmdline")
    alone, target = await lab.start("sleep", "4321")
    looker = lab.pod("sleep", "1000")
    looker_id = await lab.add(looker, alone, target_id=target, attempt=1)
    assert await lab.tell(looker_id, "tr '\\0' ' ' < /proc/1/cmdline") == ["sleep 4321 "]


async def test_pod_has_its_name_its_resolver_and_its_kernel_settings(lab: CriLab) -> None:
    """Hostname, DNS settings and sysctls come from the pod, not from the machine."""
    dns = PodDNSConfig(
        nameservers=("192.0.2.53",), searches=("example.test",), options=(PodDNSConfigOption(name="ndots", value="3"),)
    )
    fields = {
        "dns_policy": "None",
        "dns_config": dns,
        "security_context": PodSecurityContext(
            sysctls=(Sysctl(name="net.ipv4.ip_unprivileged_port_start", value="7"),)
        ),
    }
    container_id = await lab.run_shell("sleep 1000", pod=fields)
    script = "echo $HOSTNAME; hostname; cat /etc/resolv.conf /proc/sys/net/ipv4/ip_unprivileged_port_start"
    name, host, *rest = await lab.tell(container_id, script)
    assert name == host
    assert name.startswith("pod-")
    assert rest == ["search example.test", "nameserver 192.0.2.53", "options ndots:3", "7"]


@pytest.mark.parametrize(("args", "line"), [((), "entry usual"), (("other",), "entry other")], ids=["image", "pod"])
async def test_image_says_what_to_run_unless_the_pod_does(lab: CriLab, args: tuple[str, ...], line: str) -> None:
    """The pod's arguments replace those of the image, and the entry point stays."""
    await lab.start(image=oci_images.ENTRYPOINT, args=args)
    assert (await lab.first_line()).text == line.encode() + b"\n"


async def test_image_says_variables_and_directory(lab: CriLab) -> None:
    """The image's environment and working directory apply when the pod sets none."""
    container_id = await lab.run_shell("sleep 1000", image=oci_images.ENTRYPOINT)
    assert await lab.tell(container_id, "echo $GREETING; pwd") == ["hello", "/srv"]


async def test_unsupported_user_namespaces_are_refused(cri: OpenCri, lab: CriLab) -> None:
    """A sandbox with less isolation than requested must not be created."""
    with pytest.raises(RuntimeFailure, match="hostUsers"):
        await lab.sandbox(lab.pod("true", pod={"host_users": False}))
    assert [pod for pod in await cri.runtime.pods() if pod.sandboxes] == []


async def test_missing_program_fails_the_start_with_the_error_of_the_runtime(cri: OpenCri, lab: CriLab) -> None:
    """The message has no gRPC prefix, and the container has exited with code 128."""
    pod = lab.pod("nonesuch")
    sandbox_id = await lab.sandbox(pod)
    container_id = await cri.runtime.create_container(await lab.request(pod, sandbox_id))
    with pytest.raises(RuntimeFailure, match=r'^failed to create containerd task.*exec: "nonesuch"'):
        await cri.runtime.start(container_id)
    (container,) = (await lab.inspect(pod)).containers
    assert (container.state, container.exit_code, container.reason) == (ContainerState.EXITED, 128, "StartError")
    assert container.started_at is not None
