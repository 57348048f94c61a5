"""Claims of pods on a real disk: which volume they get, its group, and that nothing in it is ever removed."""

import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api import schema
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.volumemanager.errors import VolumesNotReady
from pykubelet.kubelet.volumemanager.volume_folders import VolumeFolders
from volume_manager_rig import World
from volume_pods import UID, pod_with, volume_paths

CLAIMED = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
READ_ONLY = {"name": "data", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}}
GROUP = 4321


@pytest.fixture
async def world(folder: Path) -> AsyncIterator[World]:
    world = World(folder / "node")
    async with world.running():
        yield world
    await world.manager.unmount(pod_with())


def put_claim(world: World, source: dict[str, Any], *, node: str = "n1", **claim: Any) -> None:
    """A bound claim called data, and its volume."""
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]
    reference = {"namespace": "default", "name": "data", "uid": "claim-uid"}
    affinity = {"required": {"nodeSelectorTerms": terms}}
    spec = {**source, "claimRef": reference, "nodeAffinity": affinity, "capacity": {"storage": "1Gi"}}
    metadata = {"name": "data", "namespace": "default", "uid": "claim-uid"}
    body = {"metadata": metadata, "spec": {"volumeName": "v"}, "status": {"phase": "Bound"}, **claim}
    world.api.put(schema.PERSISTENT_VOLUMES, {"metadata": {"name": "v"}, "spec": spec})
    world.api.put(schema.PERSISTENT_VOLUME_CLAIMS, body)


@pytest.mark.parametrize("kind", ["local", "hostPath"])
async def test_claim_is_the_path_of_its_volume_and_keeps_its_files(world: World, folder: Path, kind: str) -> None:
    """Unmounting the pod, or removing its folder as an orphan's, leaves the volume alone."""
    volume = folder / "volume"
    volume.mkdir()
    (volume / "file").write_text("precious")
    put_claim(world, {kind: {"path": str(volume)}})
    pod = pod_with(CLAIMED)
    await world.mount(pod)
    assert world.path(pod, "data") == volume
    await world.manager.unmount(pod)
    assert volume_paths(world.manager.directory(UID)) == []
    await world.mount(pod)
    await world.another_manager().remove_orphans(frozenset())
    assert not (folder / "node/pods" / UID).exists()
    assert (volume / "file").read_text() == "precious"


@pytest.mark.parametrize(
    ("source", "change", "text"),
    [
        ({"nfs": {"server": "s", "path": "/"}}, {}, 'persistent volume "v" of type nfs is not supported by this node'),
        ({"csi": {"driver": "d", "volumeHandle": "h"}}, {}, 'persistent volume "v" of type csi is not supported'),
        ({"local": {"path": "/nowhere/at/all"}}, {}, 'path "/nowhere/at/all" does not exist'),
        ({"local": {"path": "/"}}, {"status": {"phase": "Pending"}}, "PVC is not bound"),
        (
            {"local": {"path": "/"}},
            {"metadata": {"name": "data", "namespace": "default", "uid": "other"}},
            "found PV object v but its pv.Spec.ClaimRef.UID claim-uid does not point to claim.UID other",
        ),
        ({"local": {"path": "/"}, "volumeMode": "Block"}, {}, "volume data has volumeMode Block"),
    ],
)
async def test_claim_that_cannot_be_used_is_an_event(
    world: World, source: dict[str, Any], change: dict[str, Any], text: str
) -> None:
    put_claim(world, source, **change)
    with pytest.raises(VolumesNotReady, match="unmounted volumes=\\[data\\]"):
        await world.mount(pod_with(CLAIMED), timeout_seconds=0.2)
    (event,) = world.told.events
    assert event.startswith("web Warning FailedMount")
    assert text in event


async def test_volume_of_another_node_is_not_used(world: World) -> None:
    put_claim(world, {"local": {"path": "/"}}, node="n2")
    with pytest.raises(VolumesNotReady, match="no matching NodeSelectorTerms"):
        await world.mount(pod_with(CLAIMED), timeout_seconds=0.2)


async def test_local_volume_gets_the_group_of_its_pod_once(world: World, folder: Path) -> None:
    """Links are changed themselves, not what they lead to; a read-only claim and later syncs change nothing."""
    # Only root gives files a group that it is not in; an ordinary user's containers run as that user anyway.
    is_root = os.geteuid() == 0
    volume, outside = folder / "volume", folder / "outside"
    (volume / "deep").mkdir(parents=True)
    (volume / "deep/file").write_text("x")
    (volume / "deep/file").chmod(0o600)
    outside.write_text("x")
    (volume / "link").symlink_to(outside)
    put_claim(world, {"local": {"path": str(volume)}})
    security: dict[str, Any] = {"securityContext": {"fsGroup": GROUP}}
    await world.mount(pod_with(READ_ONLY, **security))
    assert volume.stat().st_gid != GROUP
    assert world.manager.volumes(PodUid(UID))["data"].read_only
    await world.manager.unmount(pod_with())
    await world.mount(pod_with(CLAIMED, **security))
    group = GROUP if is_root else os.getegid()
    assert {path.lstat().st_gid for path in (volume, *volume.rglob("*"))} == {group}
    assert stat.S_IMODE((volume / "deep/file").stat().st_mode) == (0o660 if is_root else 0o600)
    assert bool((volume / "deep").stat().st_mode & stat.S_ISGID) == is_root
    assert outside.stat().st_gid != GROUP
    os.chown(volume / "deep/file", -1, os.getegid())
    await world.another_manager().mount(pod_with(CLAIMED, **security))
    assert (volume / "deep/file").stat().st_gid == os.getegid()


def test_volume_folder_is_made_once_and_removed_whole(folder: Path) -> None:
    """Making it again changes nothing. An earlier removal that was cut short is finished."""
    folders, root = VolumeFolders(folder / "volumes"), folder / "volumes"
    folders.make("pvc-1", 1 << 20)
    (root / "pvc-1/file").write_text("x")
    folders.make("pvc-1", 1 << 20)
    assert (root / "pvc-1/file").exists()
    (root / ".deleted-pvc-1").mkdir()
    (root / ".deleted-pvc-1/rest").write_text("x")
    folders.remove("pvc-1")
    folders.remove("pvc-1")
    assert list(root.iterdir()) == []


def test_volume_folder_that_is_a_link_is_refused(folder: Path) -> None:
    """Neither made through nor removed with what it leads to."""
    folders, root, outside = VolumeFolders(folder / "volumes"), folder / "volumes", folder / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "file").write_text("x")
    (root / "pvc-1").symlink_to(outside)
    with pytest.raises(OSError, match="pvc-1"):
        folders.make("pvc-1", 1 << 20)
    folders.remove("pvc-1")
    assert (outside / "file").exists()
