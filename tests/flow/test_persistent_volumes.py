"""Binding, reclaim and protection of persistent volumes on virtual time, with the real API."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.errors import Forbidden
from pykubelet.api.schema import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from pykubelet.api.scheme import PERSISTENT_VOLUME_CLAIMS as CLAIMS
from pykubelet.api.volumes import BIND_COMPLETED, BOUND_BY_CONTROLLER, STORAGE_PROVISIONER
from volume_rig import MANUAL, volume_bench

DEFAULT: dict[str, Any] = {"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}


async def test_claim_gets_the_smallest_volume_that_fits(tmp_path: Path) -> None:
    """Class, size, access modes, volume mode and selector count; both objects show the binding."""
    async with volume_bench(tmp_path) as bench:
        await bench.add_volume("small", "1Gi")
        await bench.add_volume("other-class", "2Gi", storageClassName="fast")
        await bench.add_volume("other-mode", "2Gi", accessModes=["ReadOnlyMany"])
        await bench.add_volume("block", "2Gi", volumeMode="Block")
        await bench.add_volume("unlabelled", "2Gi")
        await bench.add_volume("large", "9Gi", metadata={"labels": {"tier": "gold"}})
        await bench.add_volume("right", "3Gi", metadata={"labels": {"tier": "gold"}})
        await asyncio.sleep(1)
        selector = {"matchLabels": {"tier": "gold"}}
        await bench.add_claim("data", "2Gi", storageClassName=MANUAL, selector=selector)
        claim = await bench.until_claim("data", "Bound")
        assert claim.spec.volume_name == "right"
        assert dict(claim.status.capacity) == {"storage": "3Gi"}
        assert claim.status.access_modes == ("ReadWriteOnce",)
        assert {BIND_COMPLETED, BOUND_BY_CONTROLLER} <= claim.metadata.annotations.keys()
        volume = await bench.volume("right")
        assert volume.status.phase == "Bound"
        assert volume.spec.claim_ref is not None
        assert volume.spec.claim_ref.uid == claim.metadata.uid
        phases = {name: (await bench.volume(name)).status.phase for name in ("small", "large", "block", "other-mode")}
        assert set(phases.values()) == {"Available"}


async def test_claim_without_volume_waits_and_is_bound_when_one_appears(tmp_path: Path) -> None:
    async with volume_bench(tmp_path) as bench:
        await bench.add_claim("data", storageClassName="")
        text = "no persistent volumes available for this claim and no storage class is set"
        await bench.until_event("FailedBinding", text)
        assert (await bench.claim("data")).status.phase == "Pending"
        await bench.add_volume("late", storageClassName="")
        assert (await bench.until_claim("data", "Bound")).spec.volume_name == "late"


async def test_two_claims_never_share_a_volume(tmp_path: Path) -> None:
    async with volume_bench(tmp_path) as bench:
        for number in range(8):
            await bench.add_claim(f"c{number}", storageClassName=MANUAL)
        for number in range(6):
            await bench.add_volume(f"v{number}")
        await asyncio.sleep(10)
        claims = [await bench.claim(f"c{number}") for number in range(8)]
        bound = [claim.spec.volume_name for claim in claims if claim.status.phase == "Bound"]
        assert len(bound) == len(set(bound)) == 6


async def test_reserved_volume_goes_to_its_claim_only(tmp_path: Path) -> None:
    """A volume may name its claim, and a claim its volume; a mismatch is an event."""
    async with volume_bench(tmp_path) as bench:
        await bench.add_volume("kept", claimRef={"namespace": "default", "name": "wanted"})
        await bench.add_volume("named", "5Gi")
        await bench.until_volume("kept", "Available")
        await bench.add_claim("other", storageClassName=MANUAL, volumeName="kept")
        await bench.until_event("FailedBinding", 'volume "kept" already bound to a different claim.')
        await bench.add_claim("wanted", storageClassName=MANUAL)
        claim = await bench.until_claim("wanted", "Bound")
        assert claim.spec.volume_name == "kept"
        assert BOUND_BY_CONTROLLER not in (await bench.volume("kept")).metadata.annotations
        await bench.add_claim("big", "9Gi", storageClassName=MANUAL, volumeName="named")
        await bench.until_event("VolumeMismatch", 'Cannot bind to requested volume "named": requested PV is too small')
        await bench.add_claim("chosen", storageClassName=MANUAL, volumeName="named")
        claim = await bench.until_claim("chosen", "Bound")
        assert BOUND_BY_CONTROLLER not in claim.metadata.annotations
        assert (await bench.claim("other")).status.phase == "Pending"


async def test_volume_that_vanishes_loses_its_claim(tmp_path: Path) -> None:
    async with volume_bench(tmp_path) as bench:
        await bench.add_volume("v")
        await bench.add_claim("data", storageClassName=MANUAL)
        await bench.until_claim("data", "Bound")
        await bench.delete(PERSISTENT_VOLUMES, "v")
        await asyncio.sleep(5)
        assert (await bench.volume("v")).metadata.deletion_timestamp is not None
        await bench.change(PERSISTENT_VOLUMES, "v", {"metadata": {"finalizers": None}})
        lost = await bench.until_claim("data", "Lost")
        assert (dict(lost.status.capacity), lost.status.access_modes) == ({}, ())
        await bench.until_event("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")


@pytest.mark.parametrize(
    ("provisioner", "policy", "phase"),
    [
        ("example.com/disks", "Delete", "Released"),
        ("example.com/disks", "Retain", "Available"),
        ("", "Delete", "Available"),
    ],
)
async def test_second_volume_of_a_claim_is_for_its_provisioner_or_for_others(
    tmp_path: Path, provisioner: str, policy: str, phase: str
) -> None:
    """A volume that was provisioned for a claim that took another one would be left over; others may be used again."""
    async with volume_bench(tmp_path) as bench:
        await bench.add_volume("first")
        await bench.add_claim("data", storageClassName=MANUAL)
        uid = (await bench.until_claim("data", "Bound")).metadata.uid
        annotations = {"pv.kubernetes.io/provisioned-by": provisioner} if provisioner else {}
        reference = {"namespace": "default", "name": "data", "uid": uid}
        await bench.add_volume(
            "second",
            metadata={"annotations": annotations},
            claimRef=reference,
            persistentVolumeReclaimPolicy=policy,
        )
        second = await bench.until_volume("second", phase)
        assert second.spec.claim_ref is not None
        assert second.spec.claim_ref.uid == (uid if phase == "Released" else "")
        assert (await bench.claim("data")).spec.volume_name == "first"


@pytest.mark.parametrize(
    ("policy", "phase", "reason", "text"),
    [
        ("Retain", "Released", "", ""),
        ("Recycle", "Failed", "VolumeFailedRecycle", "No recycler plugin found for the volume!"),
        (
            "Delete",
            "Failed",
            "VolumeFailedDelete",
            'error getting deleter volume plugin for volume "v": no deletable volume plugin matched',
        ),
    ],
)
async def test_volume_of_a_user_is_never_deleted(
    tmp_path: Path, policy: str, phase: str, reason: str, text: str
) -> None:
    """The policy Retain keeps it; the others fail with an event. A new claim of the same name does not get it."""
    async with volume_bench(tmp_path) as bench:
        await bench.add_volume("v", persistentVolumeReclaimPolicy=policy)
        await bench.add_claim("data", storageClassName=MANUAL)
        await bench.until_claim("data", "Bound")
        await bench.delete(PERSISTENT_VOLUME_CLAIMS, "data")
        await bench.until_volume("v", phase)
        if reason:
            await bench.until_event(reason, text)
        await bench.add_claim("data", storageClassName=MANUAL)
        await asyncio.sleep(30)
        assert (await bench.claim("data")).status.phase == "Pending"
        assert (await bench.volume("v")).status.phase == phase
        # Without the reference to the old claim it may be used again.
        await bench.change(PERSISTENT_VOLUMES, "v", {"spec": {"claimRef": None}})
        await bench.until_claim("data", "Bound")


async def test_claim_in_use_is_kept_until_its_pod_is_gone(tmp_path: Path) -> None:
    """A pod on a node counts; one that is not scheduled yet does not."""
    async with volume_bench(tmp_path) as bench:
        await bench.add_node()
        await bench.add_volume("v")
        await bench.add_claim("data", storageClassName=MANUAL)
        await bench.add_pod("user", "data")
        await bench.until_placed("user")
        await bench.delete(PERSISTENT_VOLUME_CLAIMS, "data")
        await asyncio.sleep(30)
        assert (await bench.claim("data")).metadata.finalizers == ("kubernetes.io/pvc-protection",)
        await bench.add_pod("late", "data")
        await bench.until_unschedulable("late", 'persistentvolumeclaim "data" is being deleted')
        await bench.remove_pod("user")
        await bench.until_gone(PERSISTENT_VOLUME_CLAIMS, "data")
        await bench.until_volume("v", "Released")
        await bench.until_unschedulable("late", 'persistentvolumeclaim "data" not found')


async def test_default_class_is_set_at_creation_or_later(tmp_path: Path) -> None:
    """An empty class means none. A claim that was created before there was a default gets it then."""
    async with volume_bench(tmp_path) as bench:
        await bench.add_claim("early")
        await bench.add_claim("none", storageClassName="")
        await asyncio.sleep(1)
        await bench.add_class("disks", **DEFAULT)
        await bench.add_claim("late")

        async def has_class() -> bool:
            return (await bench.claim("early")).spec.storage_class_name == "disks"

        await bench.until(has_class)
        assert (await bench.claim("late")).spec.storage_class_name == "disks"
        assert (await bench.claim("none")).spec.storage_class_name == ""
        text = (
            "Waiting for a volume to be created either by the external provisioner 'example.com/disks' or manually by "
            "the system administrator. If volume creation is delayed, please verify that the provisioner is running "
            "and correctly registered."
        )
        await bench.until_event("ExternalProvisioning", text)
        assert (await bench.claim("late")).metadata.annotations[STORAGE_PROVISIONER] == "example.com/disks"


async def test_class_that_cannot_provision_is_reported(tmp_path: Path) -> None:
    async with volume_bench(tmp_path) as bench:
        await bench.add_claim("lost", storageClassName="missing")
        await bench.until_event("ProvisioningFailed", 'storageclass.storage.k8s.io "missing" not found')
        await bench.add_class("cloud", provisioner="kubernetes.io/aws-ebs")
        await bench.add_claim("cloudy", storageClassName="cloud")
        await bench.until_event("ProvisioningFailed", "no volume plugin matched name: kubernetes.io/aws-ebs")
        assert (await bench.claim("cloudy")).status.phase == "Pending"


async def test_claim_is_expanded_only_if_bound_and_its_class_allows_it(tmp_path: Path) -> None:
    async with volume_bench(tmp_path) as bench:
        await bench.add_class(MANUAL)
        await bench.add_volume("v")
        await bench.add_claim("data", storageClassName=MANUAL)
        await bench.until_claim("data", "Bound")
        change: dict[str, Any] = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
        with pytest.raises(Forbidden, match="only dynamically provisioned pvc can be resized"):
            await bench.change(PERSISTENT_VOLUME_CLAIMS, "data", change)


async def test_claim_of_an_ephemeral_volume_comes_back_while_its_pod_exists(tmp_path: Path) -> None:
    """The pod waits for a node, so that nothing protects the claim."""
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    async with volume_bench(tmp_path) as bench:
        await bench.add_pod("web", volumes=volumes)

        async def claim_uid() -> str:
            found = await bench.get(PERSISTENT_VOLUME_CLAIMS, "web-scratch")
            return found["metadata"]["uid"] if found is not None else ""

        async def is_made() -> bool:
            return bool(await claim_uid())

        await bench.until(is_made)
        first = await claim_uid()
        await bench.plain.delete(CLAIMS, "web-scratch", namespace="default")

        async def is_made_again() -> bool:
            return await claim_uid() not in ("", first)

        await bench.until(is_made_again)
        await bench.remove_pod("web")
        await bench.plain.delete(CLAIMS, "web-scratch", namespace="default")
        await bench.until_gone(PERSISTENT_VOLUME_CLAIMS, "web-scratch")
        await asyncio.sleep(30)
        assert await claim_uid() == ""
