"""The file system that containers see: the machine's, with volumes at their mount paths and no trace outside."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from process_lab import Lab, exists, make_runtime, stop_everything
from pykubelet.api.generated.core import SecurityContext, VolumeMount
from pykubelet.runtimes.process.runtime import ProcessRuntime
from pykubelet.runtimes.process.shim.rootfs import NO_NAMESPACE
from pykubelet.runtimes.protocol import Mount, RuntimeFailure
from requirements import needs_mount_namespaces

# A path that is followed while it is exchanged led outside in one start of ten.
_STARTS = 40
_EXCHANGE = """
import ctypes, os, sys
libc, (first, second) = ctypes.CDLL(None), map(os.fsencode, sys.argv[1:])
while libc.renameat2(-100, first, -100, second, 2) == 0:
    pass
"""
"""Exchanges two files without end."""


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    folder = tmp_path / "volume"
    folder.mkdir(mode=0o777)
    (folder / "greeting").write_text("hello\n")
    return folder


@pytest.fixture
async def bare(root: Path, tmp_path: Path) -> AsyncIterator[Lab]:
    """A lab on a machine that allows no mounts."""
    async with make_runtime(root, way=NO_NAMESPACE) as runtime:
        yield Lab(runtime, tmp_path)
        await stop_everything(runtime)


@needs_mount_namespaces
@pytest.mark.parametrize(
    "path",
    [
        "/mnt",
        "/no/such/path",
        "/etc/no-such-folder",
        "/var/run/secrets/kubernetes.io/serviceaccount",
        "/usr/lib/../no-such",
    ],
    ids=["is there", "is nowhere", "in a folder of files", "through a link", "with dots"],
)
async def test_volume_is_seen_at_its_path(lab: Lab, volume: Path, path: str) -> None:
    """The mount path need not exist on the machine, and is never created there."""
    was_there = exists(path)
    mount = Mount(host_path=str(volume), container_path=path)
    script = f"cat {path}/greeting; echo mine >{path}/mine; cat /etc/passwd >/dev/null && ls /usr/lib >/dev/null"
    assert await lab.output_of("sh", "-c", script, mounts=[mount]) == "hello\n"
    assert (volume / "mine").read_text() == "mine\n"
    assert exists(path) is was_there


@needs_mount_namespaces
async def test_missing_working_directory_is_created(lab: Lab, volume: Path) -> None:
    """In a volume it stays; elsewhere it is removed with the container."""
    script = "pwd; echo mine > mine; cat mine"
    assert await lab.output_of("sh", "-c", script, working_dir="/no/such/folder") == "/no/such/folder\nmine\n"
    assert not exists("/no")
    mount = Mount(host_path=str(volume), container_path="/no/volume")
    for path in ("/no/such", "/no/volume/deep/down"):
        assert await lab.output_of("sh", "-c", script, working_dir=path, mounts=[mount]) == f"{path}\nmine\n"
    assert (volume / "deep/down/mine").read_text() == "mine\n"


@needs_mount_namespaces
async def test_working_directory_is_never_created_through_a_swapped_link(
    lab: Lab, volume: Path, tmp_path: Path
) -> None:
    """Another container may exchange a folder of the volume for a link while this one starts."""
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o777)
    (volume / "folder").mkdir(mode=0o777)
    (volume / "link").symlink_to(outside)
    mount = Mount(host_path=str(volume), container_path="/no/volume")
    pair = (str(volume / "folder"), str(volume / "link"))
    exchange = await asyncio.create_subprocess_exec(sys.executable, "-c", _EXCHANGE, *pair)
    try:
        for number in range(_STARTS):
            # A start may fail at the link.
            with suppress(RuntimeFailure):
                path = f"/no/volume/folder/work-{number}/deep"
                await lab.start("true", working_dir=path, mounts=[mount])
        assert exchange.returncode is None
    finally:
        exchange.kill()
        await exchange.wait()
    assert list(outside.iterdir()) == []


async def test_missing_working_directory_is_an_error_without_mounts(bare: Lab) -> None:
    """Nothing is ever created on the machine's own disk."""
    with pytest.raises(RuntimeFailure, match=r'chdir to cwd \("/no/such"\): no such file or directory'):
        await bare.start("true", working_dir="/no/such")


@needs_mount_namespaces
async def test_files_can_be_mounted_over_files_and_beside_them(lab: Lab, volume: Path) -> None:
    """The hosts file and the termination log are such files."""
    hosts, words = volume / "hosts", volume / "words"
    hosts.write_text("192.0.2.7 somebody\n")
    words.touch()
    mounts = [
        Mount(host_path=str(hosts), container_path="/etc/hosts"),
        Mount(host_path=str(words), container_path="/dev/termination-log"),
        Mount(host_path=str(volume), container_path="/etc/no-such-folder"),
    ]
    script = "cat /etc/hosts /etc/no-such-folder/greeting; echo goodbye >/dev/termination-log; echo >/dev/null"
    assert await lab.output_of("sh", "-c", script, mounts=mounts) == "192.0.2.7 somebody\nhello\n"
    assert words.read_text() == "goodbye\n"
    assert not exists("/dev/termination-log")


@needs_mount_namespaces
async def test_read_only_volume_cannot_be_written(lab: Lab, volume: Path) -> None:
    """Not even root can write it."""
    mount = Mount(host_path=str(volume), container_path="/no/such", read_only=True)
    output = await lab.output_of(
        "sh", "-c", "cat /no/such/greeting; echo x >/no/such/mine || echo refused", mounts=[mount]
    )
    assert output.startswith("hello\n")
    assert "refused\n" in output
    assert not (volume / "mine").exists()


@needs_mount_namespaces
async def test_read_only_root_leaves_volumes_and_devices_writable(lab: Lab, volume: Path, tmp_path: Path) -> None:
    """`readOnlyRootFilesystem` applies to everything that is not a volume."""
    script = f"""
        touch {tmp_path}/outside 2>/dev/null || echo refused
        touch /new 2>/dev/null || echo refused
        touch /no/such/mine /dev/shm/pykubelet-test && rm /dev/shm/pykubelet-test && echo written
    """
    output = await lab.output_of(
        "sh",
        "-c",
        script,
        mounts=[Mount(host_path=str(volume), container_path="/no/such")],
        security_context=SecurityContext(read_only_root_filesystem=True),
    )
    assert output == "refused\nrefused\nwritten\n"
    assert (volume / "mine").exists()


@needs_mount_namespaces
async def test_volumes_can_be_mounted_into_volumes(lab: Lab, volume: Path, tmp_path: Path) -> None:
    """The order does not matter; missing mount points are created in the outer volume and stay."""
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "deep").write_text("deep\n")
    (volume / "sub").mkdir()
    outer = Mount(host_path=str(volume), container_path="/data")
    mounts = [Mount(host_path=str(inner), container_path="/data/sub"), outer]
    assert await lab.output_of("cat", "/data/sub/deep", "/data/greeting", mounts=mounts) == "deep\nhello\n"
    missing = Mount(host_path=str(inner), container_path="/data/new/folder")
    file = Mount(host_path=str(inner / "deep"), container_path="/data/new/file")
    script = "cat /data/new/folder/deep /data/new/file; echo mine > /data/new/mine"
    assert await lab.output_of("sh", "-c", script, mounts=[missing, file, outer]) == "deep\ndeep\n"
    made = volume / "new"
    assert sorted(made.rglob("*")) == [made / "file", made / "folder", made / "mine"]
    locked = Mount(host_path=str(volume), container_path="/data", read_only=True)
    with pytest.raises(RuntimeFailure, match="/data/none does not exist in the read-only volume at /data"):
        await lab.start("true", mounts=[locked, Mount(host_path=str(inner), container_path="/data/none")])


@needs_mount_namespaces
async def test_host_path_that_is_missing_is_made(lab: Lab, tmp_path: Path) -> None:
    """It becomes an empty folder that stays."""
    mount = Mount(host_path=str(tmp_path / "not/yet"), container_path="/data")
    assert await lab.output_of("sh", "-c", "ls /data; touch /data/mine", mounts=[mount]) == ""
    assert exists(str(tmp_path / "not/yet/mine"))


@needs_mount_namespaces
@pytest.mark.parametrize(
    ("mount", "told"),
    [
        (Mount(host_path="/proc/no/such", container_path="/data"), "/proc/no: no such file or directory"),
        (
            Mount(host_path="/etc/passwd", container_path="/usr"),
            "/usr is a folder, so a file cannot be mounted there",
        ),
        (Mount(host_path="/usr", container_path="/etc/passwd/x"), "/etc/passwd/x leads through the file /etc/passwd"),
    ],
    ids=["no source", "file over folder", "through a file"],
)
async def test_mount_that_is_impossible_says_why(lab: Lab, mount: Mount, told: str) -> None:
    """The container does not start."""
    with pytest.raises(RuntimeFailure, match=told):
        await lab.start("true", mounts=[mount])


@needs_mount_namespaces
async def test_hostname_is_the_name_of_the_pod(lab: Lab) -> None:
    """With hostNetwork it is the name of the machine."""
    assert (await lab.output_of("uname", "-n")).startswith("pod-")
    assert await lab.output_of("uname", "-n", pod={"host_network": True}) == f"{os.uname().nodename}\n"


async def test_volume_is_refused_where_nothing_can_be_mounted(bare: Lab, volume: Path) -> None:
    """Creating the container fails at once with CreateContainerConfigError."""
    mount = Mount(host_path=str(volume), container_path="/data")
    with pytest.raises(
        RuntimeFailure, match="cannot give a container the volume mount at /data: it needs root"
    ) as failure:
        await bare.create("true", mounts=[mount])
    assert failure.value.reason == "CreateContainerConfigError"
    with pytest.raises(RuntimeFailure, match="readOnlyRootFilesystem"):
        await bare.create("true", security_context=SecurityContext(read_only_root_filesystem=True))


async def test_mounts_that_change_nothing_need_no_right_to_mount(bare: Lab, volume: Path) -> None:
    """A host path at the same path, and files that the kubelet adds itself, are accepted."""
    mounts = [
        Mount(host_path=str(volume), container_path=str(volume)),
        Mount(host_path=str(volume / "greeting"), container_path="/etc/hosts"),
        Mount(host_path=str(volume / "greeting"), container_path="/dev/termination-log"),
    ]
    fields = {"termination_message_path": "/dev/termination-log"}
    assert await bare.output_of("cat", f"{volume}/greeting", mounts=mounts, **fields) == "hello\n"
    asked = (VolumeMount(name="v", mount_path="/etc/hosts"),)
    with pytest.raises(RuntimeFailure, match="the volume mount at /etc/hosts"):
        await bare.create("true", mounts=mounts, volume_mounts=asked, **fields)


async def test_bidirectional_mount_is_refused(runtime: ProcessRuntime, lab: Lab, volume: Path) -> None:
    """Mounts of containers never propagate to the machine."""
    mount = Mount(host_path=str(volume), container_path="/data", propagation="Bidirectional")
    with pytest.raises(RuntimeFailure, match="Bidirectional"):
        await lab.create("true", mounts=[mount])
    assert all(pod.containers == () for pod in await runtime.pods())
