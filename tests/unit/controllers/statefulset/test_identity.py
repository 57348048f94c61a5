"""The identity and claims of a StatefulSet's pods: names, labels, volumes and owners."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.api.generated.apps import (
    StatefulSet,
    StatefulSetPersistentVolumeClaimRetentionPolicy,
    StatefulSetSpec,
)
from pykubelet.api.generated.core import (
    EmptyDirVolumeSource,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
    PodTemplateSpec,
    Volume,
)
from pykubelet.api.generated.meta import LabelSelector, ObjectMeta, OwnerReference
from pykubelet.controllers.statefulset.identity import (
    claims_of,
    correction,
    has_other_manager,
    has_storage,
    is_left_over,
    is_member,
    new_pod,
    ordinal_of,
    owners_to_set,
)

LABELS = {"app": "web"}


def stateful_set(scaled: str = "", deleted: str = "", *templates: str) -> StatefulSet:
    policy = StatefulSetPersistentVolumeClaimRetentionPolicy(when_scaled=scaled, when_deleted=deleted)
    spec = StatefulSetSpec(
        replicas=2,
        service_name="svc",
        selector=LabelSelector(match_labels=LABELS),
        template=PodTemplateSpec(
            metadata=ObjectMeta(labels=LABELS),
            spec=PodSpec(volumes=(Volume(name="data"), Volume(name="tmp", empty_dir=EmptyDirVolumeSource()))),
        ),
        persistent_volume_claim_retention_policy=policy if scaled else None,
        volume_claim_templates=tuple(
            PersistentVolumeClaim(metadata=ObjectMeta(name=name, labels={"tier": "gold"})) for name in templates
        ),
    )
    return StatefulSet(metadata=ObjectMeta(name="web", namespace="ns", uid="set"), spec=spec)


def pod(ordinal: int, uid: str = "pod") -> Pod:
    return Pod(metadata=ObjectMeta(name=f"web-{ordinal}", namespace="ns", uid=uid, labels=LABELS))


def reference(kind: str, name: str, uid: str, *, controller: bool | None = True) -> OwnerReference:
    version = {"StatefulSet": "apps/v1", "Pod": "v1"}.get(kind, "x/v1")
    return OwnerReference(
        api_version=version, kind=kind, name=name, uid=uid, controller=controller, block_owner_deletion=True
    )


SET, POD = reference("StatefulSet", "web", "set"), reference("Pod", "web-5", "pod")
OTHER, FRIEND = reference("Backup", "b", "b"), reference("Backup", "b", "b", controller=None)


@pytest.mark.parametrize(
    ("name", "ordinal"),
    [("web-0", 0), ("web-10", 10), ("a-b-3", 3), ("-1", 1)]
    + [(name, None) for name in ("web", "web-", "web-01", "web-x", "web-1x", "", "web-2147483648", "web-1\n")],
)
def test_ordinal_is_the_number_at_the_end(name: str, ordinal: int | None) -> None:
    """Only the form that the set itself writes is accepted."""
    assert ordinal_of(name) == ordinal


def test_new_pod_is_complete() -> None:
    """Claims replace volumes of the same name, and a new pod needs no correction."""
    one = stateful_set("", "", "data", "log")
    made = new_pod(one, one.spec.template, 1, "web-abc")
    assert is_member(one, made)
    assert (made.metadata.namespace, made.spec.hostname, made.spec.subdomain) == ("ns", "web-1", "svc")
    names = [
        (volume.name, volume.persistent_volume_claim.claim_name if volume.persistent_volume_claim else "")
        for volume in made.spec.volumes
    ]
    assert names == [("data", "data-web-1"), ("log", "log-web-1"), ("tmp", "")]
    assert correction(one, made) is None
    assert not is_member(one, replace(made, metadata=ObjectMeta(name="web-01")))
    assert not is_member(one, replace(made, metadata=ObjectMeta(name="other-1")))


def test_adopted_pod_gets_what_it_lacks() -> None:
    """It gets labels and the claims of its ordinal; a pod without an ordinal gets nothing."""
    one = stateful_set("", "", "data")
    patch = correction(one, pod(3))
    assert patch == {
        "metadata": {"labels": {"statefulset.kubernetes.io/pod-name": "web-3", "apps.kubernetes.io/pod-index": "3"}},
        "spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-3"}}]},
    }
    stranger = Pod(metadata=ObjectMeta(name="web"))
    assert correction(one, stranger) is None
    assert not has_storage(one, stranger)
    assert claims_of(one, stranger) == ()


def test_claims_are_made_of_their_templates() -> None:
    """The claim has the labels of the set's selector as well."""
    (claim,) = claims_of(stateful_set("", "", "data"), pod(1))
    assert (claim.metadata.name, claim.metadata.namespace) == ("data-web-1", "ns")
    assert claim.metadata.labels == {"app": "web", "tier": "gold"}


def claim(*owners: OwnerReference) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(metadata=ObjectMeta(name="data-web-5", owner_references=owners))


OWNERS: list[tuple[str, str, str, int, tuple[OwnerReference, ...], Any]] = [
    ("kept", "Retain", "Retain", 0, (), None),
    ("kept again", "Retain", "Retain", 0, (SET,), ()),
    ("with the set", "Retain", "Delete", 0, (), (SET,)),
    ("with the set, already", "Retain", "Delete", 0, (SET,), None),
    ("with the pod: still wanted", "Delete", "Retain", 0, (), None),
    ("with the pod: too many", "Delete", "Retain", 5, (), (POD,)),
    ("with both: still wanted", "Delete", "Delete", 0, (), (SET,)),
    ("with both: too many", "Delete", "Delete", 5, (SET,), (POD,)),
    ("owned, but not managed", "Retain", "Delete", 0, (replace(SET, controller=None),), (SET,)),
    ("others stay", "Retain", "Delete", 0, (FRIEND,), (FRIEND, SET)),
    ("managed by another", "Retain", "Delete", 0, (OTHER,), None),
    ("managed by another and by us", "Retain", "Delete", 0, (OTHER, SET), (OTHER,)),
    ("of a former set", "Retain", "Delete", 0, (replace(SET, uid="former"),), None),
    ("of a former pod", "Delete", "Retain", 5, (replace(POD, uid="former"),), None),
    ("no policy", "", "", 0, (SET,), ()),
]


@pytest.mark.parametrize(
    ("scaled", "deleted", "ordinal", "present", "expected"), [pytest.param(*row[1:], id=row[0]) for row in OWNERS]
)
def test_owners_of_a_claim_follow_the_policy(
    scaled: str, deleted: str, ordinal: int, present: tuple[OwnerReference, ...], expected: Any
) -> None:
    """None means that the owners stay as they are."""
    assert owners_to_set(stateful_set(scaled, deleted), claim(*present), pod(ordinal)) == expected


@settings(deadline=None, max_examples=200)
@given(
    policy=st.tuples(st.sampled_from(["Retain", "Delete"]), st.sampled_from(["Retain", "Delete"])),
    present=st.lists(
        st.sampled_from([SET, POD, OTHER, FRIEND, replace(SET, controller=None)]), max_size=3, unique=True
    ),
    ordinal=st.sampled_from([0, 5]),
)
def test_owners_are_right_once_they_are_set(
    policy: tuple[str, str], present: list[OwnerReference], ordinal: int
) -> None:
    """A second computation changes nothing, and references of other owners stay."""
    one = stateful_set(*policy)
    wanted = owners_to_set(one, claim(*present), pod(ordinal))
    if wanted is not None:
        assert owners_to_set(one, claim(*wanted), pod(ordinal)) is None
        others = (OTHER, FRIEND)
        assert [one for one in wanted if one in others] == [one for one in present if one in others]


def test_claim_of_the_pod_before_is_left_over() -> None:
    """This applies only where the policy deletes claims with their pods."""
    former = claim(replace(POD, uid="former"))
    assert is_left_over(stateful_set("Delete", "Retain"), former, pod(5, ""))
    assert not is_left_over(stateful_set("Retain", "Retain"), former, pod(5, ""))
    assert not is_left_over(stateful_set("Delete", "Retain"), claim(), pod(5, ""))


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        pytest.param((), False, id="nobody"),
        pytest.param((SET, POD), False, id="us"),
        pytest.param((FRIEND,), False, id="an owner that manages nothing"),
        pytest.param((OTHER,), True, id="another"),
        pytest.param((replace(SET, uid="former"),), True, id="a former set"),
        pytest.param((replace(POD, uid="former"),), True, id="a former pod"),
    ],
)
def test_other_manager_is_seen(owners: tuple[OwnerReference, ...], expected: bool) -> None:
    """It does not matter where the policy retains claims."""
    assert has_other_manager(stateful_set("Delete", "Delete"), claim(*owners), pod(5)) is expected
    assert not has_other_manager(stateful_set("Retain", "Retain"), claim(*owners), pod(5))
