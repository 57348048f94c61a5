"""The indexes of claims that wait for a volume and of volumes that are free."""

from typing import Any

from pykubelet.api.generated.core import PersistentVolume, PersistentVolumeClaim
from pykubelet.api.serializer import from_document
from pykubelet.controllers.persistentvolume.volume_index import VolumeIndex

BOUND = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}


def claim(metadata: dict[str, Any] | None = None, **spec: Any) -> PersistentVolumeClaim:
    document = {"metadata": {"name": "c", "namespace": "ns", **(metadata or {})}, "spec": {"storageClassName": "fast"}}
    return from_document(document | {"spec": {"storageClassName": "fast", **spec}}, PersistentVolumeClaim)


def volume(name: str, phase: str = "Available", **spec: Any) -> PersistentVolume:
    document = {"metadata": {"name": name}, "spec": {"storageClassName": "fast", **spec}, "status": {"phase": phase}}
    return from_document(document, PersistentVolume)


def test_claim_waits_for_its_class_or_its_volume_until_it_is_bound() -> None:
    """A new volume wakes no claim that has one."""
    index = VolumeIndex()
    index.put_claim(claim())
    assert (index.claims_of_class("fast"), index.claims_for(volume("v"))) == (("ns/c",), ("ns/c",))
    index.put_claim(claim(volumeName="v"))
    assert (index.claims_of_class("fast"), index.claims_for(volume("v"))) == ((), ("ns/c",))
    index.put_claim(claim(BOUND, volumeName="v"))
    assert (index.claims_of_class("fast"), index.claims_for(volume("v"))) == ((), ())


def test_volume_is_free_until_it_is_bound_to_a_claim() -> None:
    """A volume that is reserved for a claim wakes that one only, and stays a candidate until it has its UID."""
    index, reserved = VolumeIndex(), {"namespace": "ns", "name": "c"}
    index.put_volume(volume("free"))
    index.put_volume(volume("mine", claimRef=reserved))
    index.put_volume(volume("bound", "Bound", claimRef={**reserved, "uid": "u"}))
    index.put_volume(volume("other", storageClassName="slow"))
    assert {one.metadata.name for one in index.candidates(claim())} == {"mine", "free"}
    assert index.volumes_of(claim()) == ("mine", "bound")
    assert index.claims_for(volume("mine", claimRef=reserved)) == ("ns/c",)
    index.drop_volume(volume("mine"))
    assert [one.metadata.name for one in index.candidates(claim())] == ["free"]
    assert index.volumes_of(claim()) == ("bound",)
