"""Deployments end to end: both controllers, the real API, and pods that become ready."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from controller_rig import BROKEN, NAMESPACE
from deployment_rig import Cluster, cluster, is_rolled_out, progressing
from pykubelet.api.scheme import DEPLOYMENTS, REPLICA_SETS
from pykubelet.api.serializer import to_document
from pykubelet.client.indexer import controller_of
from pykubelet.client.interface import PatchType
from pykubelet.controllers.deployment.replica_sets import (
    REVISION,
    REVISION_HISTORY,
    TEMPLATE_HASH,
    max_replicas,
    min_available,
    new_replica_set,
)
from pykubelet.controllers.framework.active_pods import is_pod_active

CHANGE_CAUSE = "kubernetes.io/change-cause"


async def sizes(world: Cluster) -> dict[str, int | None]:
    return {image: one.spec.replicas for image, one in (await world.sets()).items()}


async def test_deployment_creates_its_pods_and_reports_status(tmp_path: Path) -> None:
    """The ReplicaSet has the template hash in its name and labels.

    Counts, conditions, revision and event are checked.
    """
    async with cluster(tmp_path) as world, world.controllers():
        await world.create(replicas=3, annotations={CHANGE_CAUSE: "first"})
        found = await world.until(is_rolled_out)
        status, made = found.status, (await world.sets())["one"]
        hashed = made.metadata.labels[TEMPLATE_HASH]
        assert made.metadata.name == f"web-{hashed}"
        assert made.spec.selector is not None
        assert made.spec.selector.match_labels == {"app": "web", TEMPLATE_HASH: hashed}
        assert (made.metadata.annotations[REVISION], made.metadata.annotations[CHANGE_CAUSE]) == ("1", "first")
        assert all(pod.metadata.labels[TEMPLATE_HASH] == hashed for pod in await world.pods())
        counts = (status.replicas, status.updated_replicas, status.ready_replicas, status.unavailable_replicas)
        assert (*counts, status.observed_generation) == (3, 3, 3, 0, 1)
        assert [(one.type, one.status, one.reason) for one in status.conditions] == [
            ("Available", "True", "MinimumReplicasAvailable"),
            ("Progressing", "True", "NewReplicaSetAvailable"),
        ]
        assert progressing(found).message == f'ReplicaSet "web-{hashed}" has successfully progressed.'
        assert found.metadata.annotations[REVISION] == "1"
        assert await world.events() == [f"Scaled up replica set web-{hashed} from 0 to 3"]


async def test_deployment_is_scaled_without_another_version(tmp_path: Path) -> None:
    """Scales up, down and to zero; the ReplicaSet stays the same."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create(replicas=1)
        for wanted in (4, 2, 0):
            await world.patch({"spec": {"replicas": wanted}})
            await world.until(is_rolled_out)
            await asyncio.sleep(3)
            assert len(await world.pods()) == wanted
        made = (await world.sets())["one"].metadata.name
        assert (await world.events())[1:] == [
            f"Scaled up replica set {made} from 1 to 4",
            f"Scaled down replica set {made} from 4 to 2",
            f"Scaled down replica set {made} from 2 to 0",
        ]


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable"),
    [(4, "25%", "25%"), (3, 0, 1), (5, 2, 0), (6, "50%", "34%"), (1, 1, 0), (2, 0, "1%")],
)
async def test_new_version_takes_over_within_the_limits(
    tmp_path: Path, replicas: int, surge: int | str, unavailable: int | str
) -> None:
    """After every single pod change enough pods are available, and no more than the limit exist."""
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    async with cluster(tmp_path) as world, world.controllers():
        await world.create(replicas=replicas, strategy=rolling)
        found = await world.until(is_rolled_out)
        world.seen.clear()
        await world.set_image("two")
        await world.until(is_rolled_out)
        assert min(moment.available for moment in world.seen) >= min_available(found)
        assert max(moment.active for moment in world.seen) <= max_replicas(found)
        assert await sizes(world) == {"one": 0, "two": replicas}
        assert len(world.created) == 2 * replicas


async def test_version_that_is_overtaken_gives_way(tmp_path: Path) -> None:
    """The limits hold over all revisions, and the revisions in between need not become ready."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create(replicas=5)
        found = await world.until(is_rolled_out)
        world.seen.clear()
        for image in (BROKEN, "three", "four"):
            await world.set_image(image)
            await asyncio.sleep(1.5)
        await world.until(is_rolled_out)
        assert min(moment.available for moment in world.seen) >= min_available(found)
        assert max(moment.active for moment in world.seen) <= max_replicas(found)
        assert await sizes(world) == {"one": 0, BROKEN: 0, "three": 0, "four": 5}


async def test_deployment_waits_for_pods_to_stay_ready(tmp_path: Path) -> None:
    """A pod counts as available only after minReadySeconds. A change of minReadySeconds is copied to the ReplicaSet."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create(replicas=2, minReadySeconds=20)
        started = world.clock.monotonic()
        await world.until(is_rolled_out)
        assert world.clock.monotonic() - started >= 20
        await world.patch({"spec": {"minReadySeconds": 5}})
        await asyncio.sleep(1)
        assert (await world.sets())["one"].spec.min_ready_seconds == 5


async def test_broken_version_stops_at_the_deadline_and_is_rolled_back(tmp_path: Path) -> None:
    """The working pods of the former version stay.

    Rolling back, as `kubectl rollout undo` does, makes the former ReplicaSet the newest revision.
    """
    async with cluster(tmp_path) as world, world.controllers():
        await world.create(replicas=4, progressDeadlineSeconds=60, annotations={CHANGE_CAUSE: "good"})
        await world.until(is_rolled_out)
        await world.set_image(BROKEN)
        started = world.clock.monotonic()
        failed = await world.until(lambda found: progressing(found).status == "False")
        assert 60 <= world.clock.monotonic() - started < 70
        assert progressing(failed).reason == "ProgressDeadlineExceeded"
        assert "has timed out progressing." in progressing(failed).message
        assert (failed.status.available_replicas, await sizes(world)) == (3, {"one": 3, BROKEN: 2})
        former = (await world.sets())["one"]
        labels = {key: value for key, value in former.spec.template.metadata.labels.items() if key != TEMPLATE_HASH}
        template = replace(former.spec.template, metadata=replace(former.spec.template.metadata, labels=labels))
        undo = [{"op": "replace", "path": "/spec/template", "value": to_document(template)}]
        await world.client.patch(DEPLOYMENTS, "web", undo, namespace=NAMESPACE, patch_type=PatchType.JSON)
        found = await world.until(lambda one: is_rolled_out(one) and progressing(one).status == "True")
        assert await sizes(world) == {"one": 4, BROKEN: 0}
        annotations = (await world.sets())["one"].metadata.annotations
        assert (annotations[REVISION], annotations[REVISION_HISTORY]) == ("3", "1")
        assert found.metadata.annotations[REVISION] == "3"


async def test_paused_deployment_is_scaled_but_not_rolled_out(tmp_path: Path) -> None:
    """The Progressing condition shows the pause.

    On resumption all changes are rolled out as one revision, and the deadline did not run meanwhile.
    """
    async with cluster(tmp_path) as world, world.controllers():
        await world.create(replicas=2, progressDeadlineSeconds=30)
        await world.until(is_rolled_out)
        await world.patch({"spec": {"paused": True}})
        await world.set_image("two")
        await world.set_image("three")
        await world.patch({"spec": {"replicas": 3}})
        await asyncio.sleep(100)
        found = await world.deployment()
        assert (progressing(found).status, progressing(found).reason) == ("Unknown", "DeploymentPaused")
        assert (await sizes(world), found.status.replicas) == ({"one": 3}, 3)
        await world.patch({"spec": {"paused": False}})
        await world.until(lambda one: progressing(one).reason == "DeploymentResumed" or is_rolled_out(one))
        await world.until(is_rolled_out)
        assert await sizes(world) == {"one": 0, "three": 3}


async def test_size_changed_during_a_rollout_is_shared_by_both_versions(tmp_path: Path) -> None:
    """The new replicas are shared out in proportion, although one of the two revisions is broken."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create(replicas=10)
        await world.until(is_rolled_out)
        await world.set_image(BROKEN)
        await world.until(lambda one: one.status.updated_replicas == 5 and one.status.available_replicas == 8)
        await world.patch({"spec": {"replicas": 20}})
        await world.until(lambda one: one.status.observed_generation == one.metadata.generation)
        await asyncio.sleep(5)
        assert await sizes(world) == {"one": 15, BROKEN: 10}


async def test_recreated_deployment_never_has_pods_of_two_versions(tmp_path: Path) -> None:
    """The last old pod is gone, not only terminating, before a new pod is created."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create(replicas=3, strategy={"type": "Recreate"})
        await world.until(is_rolled_out)
        await world.set_image("two")
        await world.until(is_rolled_out)
        assert {moment.images for moment in world.seen} == {frozenset({"one"}), frozenset(), frozenset({"two"})}
        found = await world.sets()
        old, new = found["one"].metadata.name, found["two"].metadata.name
        assert (await world.events())[1:] == [
            f"Scaled down replica set {old} from 3 to 0",
            f"Scaled up replica set {new} from 0 to 3",
        ]


async def test_only_so_many_old_versions_are_kept(tmp_path: Path) -> None:
    """The oldest ReplicaSets are deleted; the change cause is copied to the new one."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create(replicas=1, revisionHistoryLimit=2)
        await world.until(is_rolled_out)
        for image in ("two", "three", "four", "five"):
            await world.patch({"metadata": {"annotations": {CHANGE_CAUSE: image}}})
            await world.set_image(image)
            await world.until(is_rolled_out)
        await asyncio.sleep(5)
        kept = await world.sets()
        assert {image: one.metadata.annotations[REVISION] for image, one in kept.items()} == {
            "three": "3",
            "four": "4",
            "five": "5",
        }
        assert kept["five"].metadata.annotations[CHANGE_CAUSE] == "five"


async def test_deleted_deployment_leaves_nothing_and_nothing_comes_back(tmp_path: Path) -> None:
    """Its ReplicaSets and pods are collected; a new Deployment of the same name starts at revision 1."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create(replicas=2)
        await world.until(is_rolled_out)
        await world.client.delete(DEPLOYMENTS, "web", namespace=NAMESPACE)
        for _ in range(5):
            await world.collect_garbage()
            await asyncio.sleep(2)
        assert (await world.sets(), await world.pods()) == ({}, ())
        await world.create(replicas=1, image="two")
        found = await world.until(is_rolled_out)
        assert found.metadata.annotations[REVISION] == "1"


async def test_sets_are_adopted_and_released_by_their_labels(tmp_path: Path) -> None:
    """The Deployment adopts a matching ReplicaSet created by hand.

    Relabelled, the ReplicaSet is released and keeps its pods.
    """
    async with cluster(tmp_path) as world, world.controllers():
        created = await world.create(replicas=2, paused=True)
        orphan = new_replica_set(created, replicas=2, annotations={})
        orphan = replace(orphan, metadata=replace(orphan.metadata, owner_references=(), name="by-hand"))
        await world.client.create(REPLICA_SETS, orphan, namespace=NAMESPACE)
        await world.patch({"spec": {"paused": False}})
        found = await world.until(is_rolled_out)
        made = (await world.sets())["one"]
        manager = controller_of(made)
        assert manager is not None
        assert (made.metadata.name, manager.uid) == ("by-hand", found.metadata.uid)
        labels = {"metadata": {"labels": {"app": "other"}}}
        await world.client.patch(REPLICA_SETS, "by-hand", labels, namespace=NAMESPACE)
        await asyncio.sleep(10)
        listed = (await world.client.list(REPLICA_SETS, namespace=NAMESPACE)).items
        assert {one.metadata.name == "by-hand": controller_of(one) is None for one in listed} == {
            True: True,
            False: False,
        }
        assert len([pod for pod in await world.pods() if is_pod_active(pod)]) == 4


async def test_name_that_is_taken_is_avoided(tmp_path: Path) -> None:
    """A foreign ReplicaSet with the hashed name counts as a collision, and the next hash is different."""
    async with cluster(tmp_path) as world:
        created = await world.create(replicas=1)
        taken = new_replica_set(created, replicas=0, annotations={})
        other = replace(taken.metadata, owner_references=(), labels={"app": "other"})
        await world.client.create(REPLICA_SETS, replace(taken, metadata=other), namespace=NAMESPACE)
        async with world.controllers():
            found = await world.until(is_rolled_out)
            assert found.status.collision_count == 1
            names = {one.metadata.name for one in (await world.client.list(REPLICA_SETS, namespace=NAMESPACE)).items}
            assert len(names) == 2
            assert taken.metadata.name in names


async def test_restart_replaces_all_pods_by_a_new_version(tmp_path: Path) -> None:
    """`kubectl rollout restart` sets an annotation in the template, which starts a rollout like any change."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create(replicas=2)
        await world.until(is_rolled_out)
        before = set(world.created)
        restarted = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
        await world.patch({"spec": {"template": {"metadata": {"annotations": restarted}}}})
        found = await world.until(is_rolled_out)
        await asyncio.sleep(3)
        assert not before & {pod.metadata.name for pod in await world.pods()}
        assert found.metadata.annotations[REVISION] == "2"


async def test_controllers_that_start_in_the_middle_go_on(tmp_path: Path) -> None:
    """All state they need is in the API."""
    async with cluster(tmp_path) as world:
        async with world.controllers():
            await world.create(replicas=4)
            await world.until(is_rolled_out)
            await world.set_image("two")
            await world.until(lambda one: 0 < one.status.updated_replicas < 4)
        async with world.controllers():
            await world.until(is_rolled_out)
            assert await sizes(world) == {"one": 0, "two": 4}
            assert len(world.created) == 8
