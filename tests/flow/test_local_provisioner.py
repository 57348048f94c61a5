"""Provisioned folders on virtual time: created for a scheduled pod, removed by the reclaim policy and nothing else."""

import asyncio
from pathlib import Path

import pytest

from pykubelet.api.schema import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from pykubelet.controllers.persistentvolume.local_provisioner import LocalVolumes
from volume_rig import NODE, VolumeBench, volume_bench


async def provisioned(bench: VolumeBench, name: str = "data") -> Path:
    """Creates a node, a claim and a pod that uses it; returns the folder once the pod has its node."""
    if not await bench.all(PODS):
        await bench.add_node()
    await bench.add_claim(name)
    await bench.add_pod(f"user-of-{name}", name)
    assert await bench.until_placed(f"user-of-{name}") == NODE
    claim = await bench.claim(name)
    return bench.folder / claim.spec.volume_name


async def test_folder_is_made_for_the_first_consumer(tmp_path: Path) -> None:
    """The claim waits for a pod; the pod gets its node only when the claim is bound."""
    async with volume_bench(tmp_path, provisions=True) as bench:
        await bench.add_node()
        await asyncio.sleep(1)
        await bench.add_claim("data", "3Gi")
        await bench.until_event("WaitForFirstConsumer", "waiting for first consumer to be created before binding")
        assert not bench.folder.exists()
        await bench.add_pod("user", "data")
        assert await bench.until_placed("user") == NODE
        claim = await bench.claim("data")
        assert (claim.status.phase, claim.spec.volume_name) == ("Bound", f"pvc-{claim.metadata.uid}")
        folder = bench.folder / claim.spec.volume_name
        assert (bench.folder.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o700, 0o777)
        volume = await bench.volume(claim.spec.volume_name)
        assert volume.spec.local is not None
        assert volume.spec.local.path == str(folder)
        assert dict(volume.spec.capacity) == {"storage": "3Gi"}
        assert (volume.spec.persistent_volume_reclaim_policy, volume.spec.storage_class_name) == ("Delete", "standard")
        await bench.until_event("ProvisioningSucceeded", f"Successfully provisioned volume {claim.spec.volume_name}")


@pytest.mark.parametrize("is_enforced", [True, False])
async def test_capacity_that_nothing_enforces_is_an_event(tmp_path: Path, is_enforced: bool) -> None:
    """The folder is made, and expanded, with the bytes that the claim requests."""
    capacities: list[int] = []

    def make(_: str, capacity: int) -> bool:
        capacities.append(capacity)
        return is_enforced

    def expand(_: str, capacity: int) -> None:
        capacities.append(capacity)

    here = LocalVolumes(node_name=NODE, root=tmp_path / "volumes", make=make, expand=expand, remove=lambda _: None)
    async with volume_bench(tmp_path, local_volumes=here) as bench:
        await provisioned(bench)
        await bench.change(PERSISTENT_VOLUME_CLAIMS, "data", {"spec": {"resources": {"requests": {"storage": "2Gi"}}}})
        await bench.until_event("VolumeResizeSuccessful", "Resize volume succeeded")
        text = f"the volume may grow beyond its capacity: no project quotas on the file system of {here.root}"
        assert await bench.events("CapacityNotEnforced") == ([] if is_enforced else [text])
    assert capacities == [1 << 30, 2 << 30]


async def test_folder_goes_with_its_claim_without_following_links(tmp_path: Path) -> None:
    async with volume_bench(tmp_path, provisions=True) as bench:
        folder, outside = await provisioned(bench), tmp_path / "outside"
        outside.mkdir()
        (outside / "precious").write_text("data")
        (folder / "link").symlink_to(outside)
        (folder / "deep").mkdir()
        (folder / "deep/file").write_text("x")
        await bench.delete(PERSISTENT_VOLUME_CLAIMS, "data")
        await asyncio.sleep(30)
        assert (folder / "deep/file").exists()
        await bench.remove_pod("user-of-data")
        await bench.until_gone(PERSISTENT_VOLUME_CLAIMS, "data")
        await bench.until_gone(PERSISTENT_VOLUMES, folder.name)
        assert list(bench.folder.iterdir()) == []
        assert (outside / "precious").read_text() == "data"


async def test_folder_with_policy_retain_outlives_claim_and_volume(tmp_path: Path) -> None:
    async with volume_bench(tmp_path, provisions=True) as bench:
        folder = await provisioned(bench)
        (folder / "file").write_text("x")
        await bench.change(PERSISTENT_VOLUMES, folder.name, {"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
        await bench.remove_pod("user-of-data")
        await bench.delete(PERSISTENT_VOLUME_CLAIMS, "data")
        await bench.until_volume(folder.name, "Released")
        await bench.delete(PERSISTENT_VOLUMES, folder.name)
        await bench.until_gone(PERSISTENT_VOLUMES, folder.name)
        assert (folder / "file").exists()


async def test_deleted_volume_stays_while_its_claim_exists(tmp_path: Path) -> None:
    """Deleting the volume first deletes nothing until the claim goes; then the folder goes too."""
    async with volume_bench(tmp_path, provisions=True) as bench:
        folder = await provisioned(bench)
        await bench.delete(PERSISTENT_VOLUMES, folder.name)
        await asyncio.sleep(30)
        assert folder.exists()
        await bench.remove_pod("user-of-data")
        await bench.delete(PERSISTENT_VOLUME_CLAIMS, "data")
        await bench.until_gone(PERSISTENT_VOLUMES, folder.name)
        assert not folder.exists()


async def test_forged_volume_never_removes_anything(tmp_path: Path) -> None:
    """A volume that only claims to be provisioned here, with another path or name, is not ours."""
    async with volume_bench(tmp_path, provisions=True) as bench:
        folder = await provisioned(bench)
        outside = tmp_path / "outside"
        outside.mkdir()
        spec = (await bench.get(PERSISTENT_VOLUMES, folder.name, namespace="") or {})["spec"]
        forged = {
            **spec,
            "claimRef": {**spec["claimRef"], "name": "gone", "uid": "00000000-0000-4000-8000-00000000beef"},
        }
        metadata = {
            "annotations": {"pv.kubernetes.io/provisioned-by": "pykubelet.io/local-path"},
            "finalizers": ["external-provisioner.volume.kubernetes.io/finalizer"],
        }
        uid_name = "pvc-00000000-0000-4000-8000-00000000beef"
        paths = {"evil": str(folder), uid_name: str(folder), f"{uid_name[:-1]}e": str(outside)}
        for name, path in paths.items():
            await bench.make(PERSISTENT_VOLUMES, name, metadata=metadata, spec={**forged, "local": {"path": path}})
            await bench.until_volume(name, "Released")
        await asyncio.sleep(30)
        assert folder.exists()
        assert outside.exists()


async def test_claim_that_a_folder_cannot_serve_is_refused(tmp_path: Path) -> None:
    async with volume_bench(tmp_path, provisions=True) as bench:
        await bench.add_node()
        await asyncio.sleep(1)
        await bench.add_claim("block", volumeMode="Block")
        await bench.add_pod("user", "block")
        text = 'failed to provision volume with StorageClass "standard": block volumes are not supported'
        await bench.until_event("ProvisioningFailed", text)
        assert not bench.folder.exists()


async def test_expansion_raises_the_capacity_of_volume_and_claim(tmp_path: Path) -> None:
    async with volume_bench(tmp_path, provisions=True) as bench:
        folder = await provisioned(bench)
        await bench.change(PERSISTENT_VOLUME_CLAIMS, "data", {"spec": {"resources": {"requests": {"storage": "5Gi"}}}})
        await bench.until_event("VolumeResizeSuccessful", "Resize volume succeeded")
        assert dict((await bench.claim("data")).status.capacity) == {"storage": "5Gi"}
        assert dict((await bench.volume(folder.name)).spec.capacity) == {"storage": "5Gi"}


async def test_claim_of_a_pod_that_bypasses_the_scheduler_is_provisioned(tmp_path: Path) -> None:
    """As those of static pods, whether pod or claim comes first; a pod of another node changes nothing."""
    async with volume_bench(tmp_path, provisions=True) as bench:
        await bench.add_node()
        await asyncio.sleep(1)
        await bench.add_claim("early")
        await bench.add_claim("foreign")
        await bench.add_pod("static", "early", nodeName=NODE)
        await bench.add_pod("static-2", "late", nodeName=NODE)
        await bench.add_pod("other", "foreign", nodeName="n2")
        await bench.add_claim("late")
        await bench.until_claim("early", "Bound")
        await bench.until_claim("late", "Bound")
        assert (await bench.claim("foreign")).status.phase == "Pending"


async def test_ephemeral_volume_gets_a_claim_that_its_pod_owns(tmp_path: Path) -> None:
    """A claim that belongs to something else is never used."""
    async with volume_bench(tmp_path, provisions=True) as bench:
        await bench.add_node()
        template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
        volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
        await bench.add_pod("web", volumes=volumes)
        assert await bench.until_placed("web") == NODE
        claim = await bench.claim("web-scratch")
        (owner,) = claim.metadata.owner_references
        assert (owner.kind, owner.name, owner.controller, claim.status.phase) == ("Pod", "web", True, "Bound")
        await bench.add_claim("other-scratch")
        await bench.add_pod("other", volumes=volumes)
        text = "PVC default/other-scratch was not created for pod default/other (pod is not owner)"
        await bench.until_unschedulable("other", text)
