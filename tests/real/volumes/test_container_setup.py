"""Container settings prepared on a real disk, and termination messages."""

import stat
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.generated.core import Pod
from pykubelet.kubelet.kuberuntime.container import ContainerSettings
from pykubelet.kubelet.kuberuntime.termination import TerminationMessages
from pykubelet.runtimes.log_format import format_lines
from pykubelet.runtimes.protocol import ContainerState, Mount, RuntimeContainer, RuntimeFailure
from volume_manager_rig import World, facts, read, replace_by_link, write
from volume_pods import UID, pod_with, service

IPS = ("10.1.0.5",)


@pytest.fixture
async def world(folder: Path) -> AsyncIterator[World]:
    world = World(folder)
    async with world.running():
        yield world
    await world.manager.unmount(pod_with())


async def settings_of(world: World, pod: Pod, ips: tuple[str, ...] = IPS, attempt: int = 0) -> ContainerSettings:
    await world.mount(pod)
    return await world.setup.container(pod, pod.spec.containers[0], ips, attempt=attempt)


def with_container(*volumes: dict[str, Any], **fields: Any) -> Pod:
    return pod_with(*volumes, containers=[{"name": "main", **fields}])


async def test_container_gets_all_that_its_pod_asks_for(world: World) -> None:
    """Expanded command and arguments, environment, volumes, hosts file, and termination log."""
    world.put_config_map("settings", colour="red")
    world.facts.listed = (service("kubernetes", "10.0.0.1", {"port": 443}),)
    pod = with_container(
        {"name": "config", "configMap": {"name": "settings"}},
        command=["sh", "-c", "echo $(COLOUR)"],
        args=["$(NONE)", "$$(COLOUR)"],
        env=[{"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}}],
        volumeMounts=[{"name": "config", "mountPath": "/config"}],
        terminationMessagePath="/dev/termination-log",
    )
    found = await settings_of(world, pod, attempt=3)
    assert found.command == ("sh", "-c", "echo red")
    assert found.args == ("$(NONE)", "$(COLOUR)")
    assert found.environment[0] == ("COLOUR", "red")
    assert dict(found.environment)["KUBERNETES_SERVICE_HOST"] == "10.0.0.1"
    directory = world.manager.directory(UID)
    assert found.mounts == (
        Mount(host_path=str(world.path(pod, "config")), container_path="/config", read_only=True),
        Mount(host_path=directory.hosts_file, container_path="/etc/hosts"),
        Mount(host_path=directory.termination_file("main", 3), container_path="/dev/termination-log"),
    )
    assert read(directory.hosts_file).endswith("10.1.0.5\tweb\n")
    assert stat.S_IMODE(facts(directory.hosts_file).st_mode) == 0o644
    assert stat.S_IMODE(facts(directory.termination_file("main", 3)).st_mode) == 0o666


async def test_hosts_file_is_written_in_place(world: World) -> None:
    """Running containers have it mounted, so the inode stays when the addresses change."""
    pod = with_container()
    await settings_of(world, pod)
    path = world.manager.directory(UID).hosts_file
    before = facts(path)
    await settings_of(world, pod)
    assert facts(path).st_mtime_ns == before.st_mtime_ns
    await settings_of(world, pod, ("10.1.0.6",))
    assert facts(path).st_ino == before.st_ino
    assert "10.1.0.6\tweb\n" in read(path)


async def test_hosts_file_of_the_host_network_holds_the_nodes_own(world: World) -> None:
    """It does not need a pod IP."""
    pod = pod_with(hostNetwork=True, hostAliases=[{"ip": "1.2.3.4", "hostnames": ["x"]}])
    (mount,) = (await settings_of(world, pod, ())).mounts
    text = read(mount.host_path)
    assert text.startswith("# Kubernetes-managed hosts file (host network).\n" + read("/etc/hosts"))
    assert text.endswith("1.2.3.4\tx\n")


async def test_part_of_a_volume_is_mounted_where_we_may(world: World, may_mount: bool) -> None:
    """Without the right to mount, a subPath is refused."""
    mounts = [
        {"name": "scratch", "mountPath": "/whole", "subPath": "."},
        {"name": "scratch", "mountPath": "/part", "subPathExpr": "$(POD)/x"},
    ]
    env = [{"name": "POD", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}]
    pod = with_container({"name": "scratch", "emptyDir": {}}, env=env, volumeMounts=mounts)
    if not may_mount:
        with pytest.raises(RuntimeFailure, match="this node has no right to mount"):
            await settings_of(world, pod)
        return
    whole, part, _ = (await settings_of(world, pod)).mounts
    (Path(part.host_path) / "file").write_text("x")
    assert (Path(whole.host_path) / "web/x/file").read_text() == "x"


FAILURES: list[Any] = [
    ({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "no", "key": "k"}}}]}, 'secret "no" not found'),
    ({"volumeMounts": [{"name": "no", "mountPath": "/m"}]}, 'cannot find volume "no" to mount into container "main"'),
]


@pytest.mark.parametrize(("fields", "complaint"), FAILURES)
async def test_container_that_cannot_be_set_up_says_why(world: World, fields: Any, complaint: str) -> None:
    """Users see the message with CreateContainerConfigError."""
    with pytest.raises(RuntimeFailure) as caught:
        await settings_of(world, with_container(**fields))
    assert caught.value.message == complaint


async def test_hostname_is_the_pods_or_a_failure(world: World) -> None:
    """With setHostnameAsFQDN it is the FQDN."""
    assert world.setup.hostname(pod_with()) == "web"
    whole = pod_with(subdomain="sub", setHostnameAsFQDN=True)
    assert world.setup.hostname(whole) == "web.sub.default.svc.cluster.local"
    with pytest.raises(RuntimeFailure, match=r'^pod Hostname "A" is not a valid DNS label'):
        world.setup.hostname(pod_with(hostname="A"))


def exited(code: int = 1, *, attempt: int = 0, message: str = "", reason: str = "Error") -> RuntimeContainer:
    return RuntimeContainer(
        id="id",
        name="main",
        state=ContainerState.EXITED,
        attempt=attempt,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        exit_code=code,
        message=message,
        reason=reason,
    )


async def last_words(world: World, pod: Pod, ended: RuntimeContainer) -> str:
    messages = TerminationMessages(str(world.root), lambda *_: "")
    return await messages.message(pod, pod.spec.containers[0], ended, str(world.root / "0.log"))


async def test_termination_message_is_from_the_file_of_the_attempt(world: World) -> None:
    """The runtime's message comes first, and only the end of a long text is kept."""
    pod = with_container(terminationMessagePath="/dev/termination-log")
    for attempt, text in ((0, "first"), (1, "x" * 5000 + "end")):
        path = (await settings_of(world, pod, attempt=attempt)).mounts[-1].host_path
        write(path, text)
    assert await last_words(world, pod, exited(message="OOM")) == "OOM: first"
    assert await last_words(world, pod, exited(attempt=1)) == "x" * 4093 + "end"
    assert await last_words(world, pod, exited(attempt=2)) == ""


async def test_termination_message_falls_back_to_the_log(world: World) -> None:
    """This needs FallbackToLogsOnError and a failed container."""
    pod = with_container(
        terminationMessagePath="/dev/termination-log", terminationMessagePolicy="FallbackToLogsOnError"
    )
    await settings_of(world, pod)
    assert (
        await last_words(world, pod, exited())
        == "Error on reading termination message from logs: No such file or directory"
    )
    lines = b"".join(b"line %d\n" % number for number in range(2000))
    (world.root / "0.log").write_bytes(format_lines(0, "stdout", lines))
    words = await last_words(world, pod, exited())
    assert words.splitlines() == [f"line {number}" for number in range(1920, 2000)]
    assert await last_words(world, pod, exited(0)) == ""


async def test_last_words_are_an_error_when_the_file_is_none_any_more(world: World) -> None:
    """A termination log that the container replaced by a link is not followed."""
    pod = with_container(terminationMessagePath="/dev/termination-log")
    path = (await settings_of(world, pod)).mounts[-1].host_path
    replace_by_link(path, "/etc/passwd")
    words = await last_words(world, pod, exited(message="gone"))
    assert words == f"gone: Error on reading termination log {path}: Too many levels of symbolic links"
