"""StatefulSets end to end: the controller, the real API, and pods that become ready or do not."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from controller_rig import BROKEN, NAMESPACE
from pykubelet.api import schema
from pykubelet.api.generated.core import Pod
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.scheme import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from pykubelet.client.interface import PatchType
from workload_rig import Cluster, cluster

STS = schema.STATEFUL_SETS
UP = ["+web-0", "ready web-0", "+web-1", "ready web-1", "+web-2", "ready web-2"]
STORAGE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
CLAIMS = [{"metadata": {"name": "data", "labels": {"tier": "gold"}}, "spec": STORAGE}]


def partition(number: int) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": {"partition": number}}


async def delete_pod(world: Cluster, name: str) -> None:
    await world.client.delete(PODS, name, namespace=NAMESPACE)


async def test_pods_are_created_in_order_with_their_identity(tmp_path: Path) -> None:
    """Each pod is created when the one before is ready. Name, labels, host name and claims follow from the ordinal."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create_set(replicas=3, volumeClaimTemplates=CLAIMS)
        await world.until_rolled_out()
        assert world.happened == UP
        pod, status = (await world.pods())["web-1"], (await world.stateful_set()).status
        assert pod.metadata.labels == {
            "app": "web",
            "statefulset.kubernetes.io/pod-name": "web-1",
            "apps.kubernetes.io/pod-index": "1",
            "controller-revision-hash": status.update_revision,
        }
        assert (pod.spec.hostname, pod.spec.subdomain, pod.metadata.generate_name) == ("web-1", "web", "web-")
        volume = pod.spec.volumes[0]
        assert volume.persistent_volume_claim is not None
        assert (volume.name, volume.persistent_volume_claim.claim_name) == ("data", "data-web-1")
        claims = await world.claims()
        assert sorted(claims) == ["data-web-0", "data-web-1", "data-web-2"]
        assert claims["data-web-1"].metadata.labels == {"app": "web", "tier": "gold"}
        assert claims["data-web-1"].metadata.owner_references == ()
        assert (status.replicas, status.ready_replicas, status.available_replicas) == (3, 3, 3)
        assert (status.current_replicas, status.updated_replicas, status.collision_count) == (3, 3, 0)
        assert (await world.events())[:2] == [
            "SuccessfulCreate: create Claim data-web-0 Pod web-0 in StatefulSet web success",
            "SuccessfulCreate: create Pod web-0 in StatefulSet web successful",
        ]


async def test_parallel_set_starts_and_ends_all_at_once(tmp_path: Path) -> None:
    """All pods are created and deleted together; an update still replaces them one by one."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create_set(replicas=3, podManagementPolicy="Parallel")
        await world.until_rolled_out()
        assert world.happened[:3] == ["+web-0", "+web-1", "+web-2"]
        world.happened.clear()
        await world.set_image(STS, "two")
        await world.until_rolled_out()
        order = [f"{sign}web-{number}" for number in (2, 1, 0) for sign in ("-", "+", "ready ")]
        assert world.happened == order
        world.happened.clear()
        await world.patch(STS, {"replicas": 0})
        await world.until_rolled_out()
        assert sorted(world.happened) == ["-web-0", "-web-1", "-web-2"]


async def test_pod_that_does_not_become_ready_holds_up_the_others(tmp_path: Path) -> None:
    """Even a corrected template does not replace the broken pod: it must be deleted by hand."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create_set(replicas=3, image=BROKEN)
        await asyncio.sleep(60)
        assert world.happened == ["+web-0"]
        await world.set_image(STS, "two")
        await asyncio.sleep(60)
        assert await world.images() == {"web-0": BROKEN}
        await delete_pod(world, "web-0")
        await world.until_rolled_out()
        assert set((await world.images()).values()) == {"two"}


async def test_update_stops_at_a_broken_version(tmp_path: Path) -> None:
    """The last pod is replaced, and no other until it is ready."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create_set(replicas=3)
        await world.until_rolled_out()
        first = (await world.stateful_set()).status.current_revision
        await world.set_image(STS, BROKEN)
        await asyncio.sleep(60)
        assert await world.images() == {"web-0": "one", "web-1": "one", "web-2": BROKEN}
        status = (await world.stateful_set()).status
        assert (status.current_revision, status.current_replicas, status.updated_replicas) == (first, 2, 1)
        assert status.update_revision != first
        await world.undo(STS, 1)
        await delete_pod(world, "web-2")
        await world.until_rolled_out()
        assert set((await world.images()).values()) == {"one"}
        assert (await world.stateful_set()).status.current_revision == first


async def test_partition_leaves_the_first_pods_at_their_version(tmp_path: Path) -> None:
    """Pods below the partition keep their version even when recreated.

    They are updated when the partition is removed.
    """
    async with cluster(tmp_path) as world, world.controllers():
        await world.create_set(replicas=4, updateStrategy=partition(2))
        await world.until_rolled_out()
        await world.set_image(STS, "two")
        await world.until_rolled_out()
        halves = {"web-0": "one", "web-1": "one", "web-2": "two", "web-3": "two"}
        assert await world.images() == halves
        status = (await world.stateful_set()).status
        assert (status.current_replicas, status.updated_replicas) == (2, 2)
        await delete_pod(world, "web-1")
        await delete_pod(world, "web-3")
        await asyncio.sleep(20)
        assert await world.images() == halves
        await world.patch(STS, {"updateStrategy": partition(0)})
        await world.until_rolled_out()
        assert set((await world.images()).values()) == {"two"}


async def test_set_grows_at_the_end_and_shrinks_from_there(tmp_path: Path) -> None:
    """Scaling down deletes the last pod first and waits until it is gone; claims stay."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create_set(replicas=1, volumeClaimTemplates=CLAIMS)
        await world.until_rolled_out()
        await world.patch(STS, {"replicas": 3})
        await world.until_rolled_out()
        assert world.happened == UP
        world.happened.clear()
        await world.patch(STS, {"replicas": 0})
        await world.until_rolled_out()
        assert world.happened == ["-web-2", "-web-1", "-web-0"]
        assert len(await world.claims()) == 3


async def test_set_that_updates_on_deletion_waits_for_it(tmp_path: Path) -> None:
    """With OnDelete, only deleted pods are replaced by the new version."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create_set(replicas=2, updateStrategy={"type": "OnDelete"})
        await asyncio.sleep(10)
        await world.set_image(STS, "two")
        await asyncio.sleep(30)
        assert await world.images() == {"web-0": "one", "web-1": "one"}
        await delete_pod(world, "web-0")
        await asyncio.sleep(10)
        assert await world.images() == {"web-0": "two", "web-1": "one"}


async def test_pod_has_to_be_available_before_the_next_one(tmp_path: Path) -> None:
    """The next pod is created as soon as the one before was ready for minReadySeconds."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create_set(replicas=2, minReadySeconds=20)
        await asyncio.sleep(15)
        assert world.happened == ["+web-0", "ready web-0"]
        status = (await world.stateful_set()).status
        assert (status.ready_replicas, status.available_replicas) == (1, 0)
        await asyncio.sleep(10)
        assert world.happened[2:] == ["+web-1", "ready web-1"]
        await asyncio.sleep(20)
        assert (await world.stateful_set()).status.available_replicas == 2


async def test_numbers_start_where_the_set_says(tmp_path: Path) -> None:
    """When `ordinals.start` rises, new pods are created and those below it deleted."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create_set(replicas=2, ordinals={"start": 3})
        await world.until_rolled_out()
        assert sorted(await world.pods()) == ["web-3", "web-4"]
        await world.patch(STS, {"ordinals": {"start": 4}})
        await world.until_rolled_out()
        assert sorted(await world.pods()) == ["web-4", "web-5"]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
async def test_pod_that_has_ended_is_made_anew(tmp_path: Path, phase: str) -> None:
    async with cluster(tmp_path) as world, world.controllers():
        await world.create_set(replicas=2)
        await world.until_rolled_out()
        world.happened.clear()
        await world.nodes.report("web-0", phase, is_ready=False)
        await asyncio.sleep(10)
        assert world.happened == ["-web-0", "+web-0", "ready web-0"]


async def test_history_is_kept_up_to_its_limit(tmp_path: Path) -> None:
    """Revision numbers keep rising; rolling back makes the old revision the newest."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create_set(replicas=1, revisionHistoryLimit=1)
        for image in ("two", "three"):
            await world.until_rolled_out()
            await world.set_image(STS, image)
        await world.until_rolled_out()
        await asyncio.sleep(5)
        assert [one.revision for one in await world.revisions()] == [2, 3]
        await world.undo(STS, 2)
        await world.until_rolled_out()
        assert [one.revision for one in await world.revisions()] == [3, 4]
        assert await world.images() == {"web-0": "two"}


async def test_claims_are_owned_by_set_or_pod_under_a_delete_retention_policy(tmp_path: Path) -> None:
    """Owner references let the garbage collector delete the claims."""
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    async with cluster(tmp_path) as world, world.controllers():
        await world.create_set(replicas=2, volumeClaimTemplates=CLAIMS, persistentVolumeClaimRetentionPolicy=policy)
        await world.until_rolled_out()
        owners = [[one.kind for one in claim.metadata.owner_references] for claim in (await world.claims()).values()]
        assert owners == [["StatefulSet"], ["StatefulSet"]]
        await world.patch(STS, {"replicas": 1})
        await world.until_rolled_out()
        owners = [[one.kind for one in claim.metadata.owner_references] for claim in (await world.claims()).values()]
        assert owners == [["StatefulSet"], ["Pod"]]
        # The old pod's claim still exists: a new pod must not start with a claim that is about to be deleted.
        await world.patch(STS, {"replicas": 2})
        await asyncio.sleep(10)
        assert sorted(await world.pods()) == ["web-0"]
        await world.collect_garbage()
        await world.until_rolled_out()
        assert sorted(await world.claims()) == ["data-web-0", "data-web-1"]


async def test_claim_that_is_lost_before_its_pod_starts_is_made_again(tmp_path: Path) -> None:
    """A pod that waits for the claim would otherwise wait forever."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create_set(replicas=1, volumeClaimTemplates=CLAIMS)
        await asyncio.sleep(0.1)
        assert (await world.pods())["web-0"].status.phase == "Pending"
        await world.client.delete(PERSISTENT_VOLUME_CLAIMS, "data-web-0", namespace=NAMESPACE)
        await asyncio.sleep(0.1)
        assert sorted(await world.claims()) == ["data-web-0"]


async def test_orphan_is_adopted_and_a_relabelled_pod_released(tmp_path: Path) -> None:
    """Labels and the name decide. An adopted pod with an unwanted ordinal is deleted."""
    labels = {"app": "web"}
    async with cluster(tmp_path) as world, world.controllers():
        await world.create_set(replicas=1)
        await world.until_rolled_out()
        await world.patch(STS, {"replicas": 2, "updateStrategy": {"$patch": "replace", "type": "OnDelete"}})
        await world.until(lambda: _has_pod(world, "web-1"))
        await delete_pod(world, "web-1")
        spec = (await world.pods())["web-0"].spec
        orphan = Pod(metadata=ObjectMeta(name="web-7", labels=labels), spec=spec)
        await world.client.create(PODS, orphan, namespace=NAMESPACE)
        # The set does not want this ordinal, so it adopts the pod and deletes it.
        await asyncio.sleep(10)
        assert sorted(await world.pods()) == ["web-0", "web-1"]
        body = {"metadata": {"labels": {"app": "other"}}}
        await world.client.patch(PODS, "web-1", body, namespace=NAMESPACE, patch_type=PatchType.MERGE)
        await asyncio.sleep(1)
        assert (await world.pods())["web-1"].metadata.owner_references == ()


async def _has_pod(world: Cluster, name: str) -> bool:
    return name in await world.pods()


async def test_set_made_again_waits_for_the_pods_of_its_namesake(tmp_path: Path) -> None:
    """The new set waits until the garbage collector has deleted the old set's pods, then creates its own."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create_set(replicas=2)
        await world.until_rolled_out()
        await world.client.delete(STATEFUL_SETS, "web", namespace=NAMESPACE)
        await asyncio.sleep(1)
        assert sorted(await world.pods()) == ["web-0", "web-1"]
        made = await world.create_set(replicas=2)
        await asyncio.sleep(100)
        await world.collect_garbage()
        await world.until_rolled_out(within_seconds=10)
        owners = {owner.uid for pod in (await world.pods()).values() for owner in pod.metadata.owner_references}
        assert owners == {made.metadata.uid}
        (revision,) = await world.revisions()
        assert revision.metadata.name == (await world.stateful_set()).status.current_revision
