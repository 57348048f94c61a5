"""The volume manager with a real disk, the real object managers, and an in-memory API."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.aio.backoff import Backoff
from pykubelet.aio.threads import in_thread
from pykubelet.api import schema
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.objectcache.store import ObjectKey
from pykubelet.kubelet.volumemanager import volume_manager
from pykubelet.kubelet.volumemanager.errors import VolumesNotReady, VolumesNotRemoved
from pykubelet.kubelet.volumemanager.filesystem import SystemMounter
from pykubelet.testing.virtual_time import ManualClock
from volume_manager_rig import World, read
from volume_pods import UID, pod_with, volume_paths

SETTINGS = {"name": "settings", "configMap": {"name": "settings"}}
LOGIN = {"name": "login", "secret": {"secretName": "login"}}
SCRATCH = {"name": "scratch", "emptyDir": {}}
LABELS = {
    "name": "labels",
    "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"}}]},
}
MISSING = 'web Warning FailedMount MountVolume.SetUp failed for volume "settings" : configmap "settings" not found'


@pytest.fixture
async def world(folder: Path) -> AsyncIterator[World]:
    world = World(folder)
    async with world.running():
        yield world
    await world.manager.unmount(pod_with())


async def becomes(path: Path, text: str, within_seconds: float = 5.0) -> None:
    """Wait until a file has this content, without a sync of the pod."""
    async with asyncio.timeout(within_seconds):
        while read(path) != text:
            await asyncio.sleep(0.005)


async def test_volumes_are_mounted_and_unmounted(world: World) -> None:
    """Files have the content of the API objects; a second unmount does nothing."""
    world.put_config_map("settings", colour="red")
    world.put_secret("login", user="bWU=")
    pod = pod_with(SETTINGS, LOGIN, SCRATCH, LABELS)
    await world.mount(pod)
    assert (world.path(pod, "settings") / "colour").read_text() == "red"
    assert (world.path(pod, "login") / "user").read_text() == "me"
    assert (world.path(pod, "labels") / "labels").read_text() == ""
    assert {name: found.read_only for name, found in world.manager.volumes(PodUid(UID)).items()} == {
        "settings": True,
        "login": True,
        "scratch": False,
        "labels": True,
    }
    assert volume_paths(world.manager.directory(UID))
    await world.manager.unmount(pod)
    await world.manager.unmount(pod)
    assert not volume_paths(world.manager.directory(UID))
    assert world.manager.volumes(PodUid(UID)) == {}
    assert world.told.events == []


async def test_files_follow_their_object_within_a_second(world: World) -> None:
    """Without a pod sync, new keys appear and old ones are removed."""
    world.put_config_map("settings", colour="red")
    world.put_secret("login", user="bWU=")
    pod = pod_with(SETTINGS, LOGIN)
    await world.mount(pod)
    settings, login = world.path(pod, "settings"), world.path(pod, "login")
    world.put_config_map("settings", size="xl")
    world.put_secret("login", user="eW91")
    await becomes(login / "user", "you")
    await becomes(settings / "size", "xl")
    assert sorted(path.name for path in settings.iterdir() if not path.name.startswith("..")) == ["size"]


async def test_files_follow_the_pod_at_its_next_sync(world: World) -> None:
    """A downward API file gets the changed labels."""
    pod = pod_with(LABELS)
    await world.mount(pod)
    await world.mount(replace(pod, metadata=replace(pod.metadata, labels={"app": "web"})))
    assert (world.path(pod, "labels") / "labels").read_text() == 'app="web"'


async def test_pod_starts_as_soon_as_what_it_waits_for_is_there(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The update ends the wait before the next retry; only one event is emitted meanwhile."""
    monkeypatch.setattr(volume_manager, "_RETRY", Backoff(first_seconds=600, limit_seconds=600))
    pod = pod_with(SETTINGS, SCRATCH)
    mounting = asyncio.create_task(world.mount(pod))
    while MISSING not in world.told.events:
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.1)
    assert not mounting.done()
    world.put_config_map("settings", colour="red")
    await mounting
    assert (world.path(pod, "settings") / "colour").read_text() == "red"
    assert world.told.events == [MISSING]


async def test_mount_timeout_names_the_missing_volumes(world: World) -> None:
    """The message is upstream's, with the reason."""
    pod = pod_with(SETTINGS, SCRATCH)
    with pytest.raises(VolumesNotReady) as caught:
        await world.mount(pod, timeout_seconds=0.1)
    assert str(caught.value) == (
        "unmounted volumes=[settings], unattached volumes=[], failed to process volumes=[]: "
        'MountVolume.SetUp failed for volume "settings" : configmap "settings" not found'
    )
    assert set(world.manager.volumes(PodUid(UID))) == {"scratch"}


async def test_unsupported_volume_fails_at_once(world: World) -> None:
    """There is no wait for the mount timeout."""
    pod = pod_with({"name": "data", "nfs": {"server": "s", "path": "/"}}, SCRATCH)
    with pytest.raises(VolumesNotReady) as caught:
        async with asyncio.timeout(1):
            await world.mount(pod)
    assert str(caught.value) == (
        "unmounted volumes=[data scratch], unattached volumes=[], failed to process volumes=[data]: "
        "nfs volumes are not supported by this node"
    )


async def test_running_pod_keeps_its_files_when_their_object_goes(world: World) -> None:
    """Later mounts succeed, also after a restart of the node; an event has the problem."""
    world.put_config_map("settings", colour="red")
    pod = pod_with(SETTINGS)
    await world.mount(pod)
    world.api.remove(schema.CONFIG_MAPS, namespace="default", name="settings")
    while MISSING not in world.told.events:
        await asyncio.sleep(0.005)
    await world.mount(pod)
    assert (world.path(pod, "settings") / "colour").read_text() == "red"
    await world.another_manager().mount(pod, timeout_seconds=1)
    world.put_config_map("settings", colour="blue")
    await becomes(world.path(pod, "settings") / "colour", "blue")


async def test_files_are_verified_after_a_restart(world: World) -> None:
    """A sync trusts its earlier write for a while; a new manager reads the disk."""
    world.put_config_map("settings", colour="red")
    pod = pod_with(SETTINGS)
    await world.mount(pod)
    link = world.path(pod, "settings") / "colour"
    link.unlink()
    await world.mount(pod)
    assert read(link) == ""
    await world.another_manager().mount(pod)
    assert read(link) == "red"


async def test_all_volumes_are_refreshed_after_missed_changes(world: World) -> None:
    """When changes overflow the reader's queue, any object may have changed."""
    world.put_config_map("settings", colour="red")
    pod = pod_with(SETTINGS)
    await world.mount(pod)
    for number in range(1500):
        world.put_config_map(f"other-{number}", a="b")
        world.config_maps._changes.publish(ObjectKey("default", f"other-{number}"))
    world.put_config_map("settings", colour="blue")
    await becomes(world.path(pod, "settings") / "colour", "blue")
    assert world.told.events == []


async def test_unmount_after_a_restart_removes_the_volumes(world: World) -> None:
    """A new manager knows them only from the disk."""
    pod = pod_with(SCRATCH, LABELS)
    await world.mount(pod)
    (world.path(pod, "scratch") / "file").touch()
    await world.another_manager().unmount(pod)
    assert not volume_paths(world.manager.directory(UID))


async def test_remove_orphans_keeps_mounted_and_listed_pods(world: World) -> None:
    """A folder that cannot be removed is retried."""
    pod = pod_with(SCRATCH)
    await world.mount(pod)
    pods = world.root / "pods"
    for name in ("kept", "orphan", "stuck"):
        (pods / name / "volumes/kubernetes.io~empty-dir/v").mkdir(parents=True)
    (pods / "stuck/volumes/file").touch()
    for _ in range(2):
        await world.manager.remove_orphans({PodUid("kept")})
        assert sorted(path.name for path in pods.iterdir()) == sorted([UID, "kept", "stuck"])
    (pods / "stuck/volumes/file").unlink()
    await world.manager.remove_orphans(set())
    assert [path.name for path in pods.iterdir()] == [UID]
    await world.manager.unmount(pod)
    await world.manager.remove_orphans(set())
    assert list(pods.iterdir()) == []


async def test_orphan_removal_and_mount_of_one_pod_do_not_overlap(world: World) -> None:
    """They run one after the other in either order."""
    pod = pod_with(SCRATCH)
    await world.mount(pod)
    for _ in range(20):
        await world.manager.unmount(pod)
        async with asyncio.TaskGroup() as group:
            group.create_task(world.manager.remove_orphans(set()))
            group.create_task(world.mount(pod))
        assert world.path(pod, "scratch").is_dir()


async def test_unmount_reports_the_volumes_that_remain(world: World, may_mount: bool) -> None:
    """It succeeds once the mount inside the volume is gone."""
    pod = pod_with(SCRATCH)
    await world.mount(pod)
    inner = world.path(pod, "scratch") / "inner"
    inner.mkdir()
    if may_mount:
        SystemMounter().mount_memory(str(inner), size_bytes=4096, mode=0o700, group=None)
        with pytest.raises(VolumesNotRemoved, match=r"^mounted volumes=\[scratch\]: "):
            await world.manager.unmount(pod)
        SystemMounter().unmount(str(inner))
    await world.manager.unmount(pod)
    assert not volume_paths(world.manager.directory(UID))


async def test_mount_succeeds_after_cancelled_attempts(world: World) -> None:
    """Pod workers are cancelled when a pod is deleted."""
    world.put_config_map("settings", colour="red")
    pod = pod_with(SETTINGS, SCRATCH, LABELS)
    await world.manager.make_directories(pod)
    for pause in (0, 0, 0.001, 0.002, 0.005):
        task = asyncio.create_task(world.mount(pod))
        await asyncio.sleep(pause)
        task.cancel()
        await asyncio.wait({task})
    await world.mount(pod)
    assert (world.path(pod, "settings") / "colour").read_text() == "red"


async def test_files_are_written_again_after_an_interrupted_write(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds even if the wanted content is that from before the interrupted write."""
    pod, alone = pod_with(LABELS), world.another_manager()
    changed = replace(pod, metadata=replace(pod.metadata, labels={"app": "web"}))
    await alone.mount(pod)

    async def interrupted(function: Any, *arguments: Any) -> None:
        await in_thread(function, *arguments)
        raise asyncio.CancelledError

    monkeypatch.setattr(volume_manager, "in_thread", interrupted)
    with pytest.raises(asyncio.CancelledError):
        await alone.mount(changed)
    monkeypatch.undo()
    await alone.mount(pod)
    assert read(f"{alone.volumes(PodUid(UID))['labels'].path}/labels") == ""


async def test_memory_volume_without_the_right_to_mount_is_reported_once(world: World, may_mount: bool) -> None:
    """The pod runs with the volume on disk."""
    pod = pod_with({"name": "fast", "emptyDir": {"medium": "Memory"}})
    await world.mount(pod)
    await world.mount(pod)
    text = 'volume "fast" is on disk: the kubelet lacks the privilege to mount a volume of medium Memory'
    assert world.told.events == ([] if may_mount else [f"web Warning MemoryMediumUnavailable {text}"])


async def test_standalone_node_reports_volumes_that_need_the_api(folder: Path) -> None:
    """Config maps and tokens need an API server."""
    world = World(folder, has_api=False)
    token = {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}
    pod: Pod = pod_with(SETTINGS, token)
    with pytest.raises(
        VolumesNotReady, match="couldn't get configMap default/settings, no kubeClient defined"
    ) as caught:
        await world.manager.mount(pod, timeout_seconds=0.1)
    assert "cannot use TokenManager when kubelet is in standalone mode" in str(caught.value)
    async with world.running():
        assert world.manager.volumes(PodUid(UID)) == {}


async def test_disk_is_left_alone_when_nothing_has_changed_for_a_while(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Syncs without changes verify the disk only once in ten minutes."""
    clock, worked = ManualClock(), list[str]()
    alone = world.another_manager(clock)

    async def counted(function: Any, *arguments: Any) -> Any:
        worked.append(function.__name__)
        return await in_thread(function, *arguments)

    monkeypatch.setattr(volume_manager, "in_thread", counted)
    for pod, work in ((pod_with(LABELS), ["make_pod_folders", "make_all"]), (pod_with(), ["make_pod_folders"])):
        for passed, expected in ((0, work), (60, []), (500, []), (60, work)):
            worked.clear()
            clock.advance(passed)
            await alone.make_directories(pod)
            await alone.mount(pod)
            assert worked == expected, (pod.spec.volumes, passed)
        await alone.unmount(pod)
