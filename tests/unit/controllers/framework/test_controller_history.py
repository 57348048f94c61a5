"""ControllerRevisions in the API: created once, under an unused name, with their own number."""

import pytest

from pykubelet.api import serializer
from pykubelet.api.generated.apps import ControllerRevision, StatefulSet, StatefulSetSpec
from pykubelet.api.generated.core import Container, PodSpec, PodTemplateSpec
from pykubelet.api.generated.meta import LabelSelector, ObjectMeta
from pykubelet.api.labels import selector_from_labels
from pykubelet.api.scheme import CONTROLLER_REVISIONS, STATEFUL_SETS
from pykubelet.client.indexer import ObjectIndex
from pykubelet.controllers.framework.controller_history import ControllerRevisions, RevisionNaming, new_revision
from pykubelet.controllers.framework.ownership import ClaimError
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock

LABELS = {"app": "web"}
SELECTOR = selector_from_labels(LABELS)
NAMING = RevisionNaming("hash", lambda _template, count: f"h{count}")


def owner(uid: str = "u", image: str = "one") -> StatefulSet:
    spec = PodSpec(containers=(Container(name="main", image=image),))
    template = PodTemplateSpec(metadata=ObjectMeta(labels=LABELS), spec=spec)
    return StatefulSet(
        metadata=ObjectMeta(name="web", namespace="ns", uid=uid),
        spec=StatefulSetSpec(selector=LabelSelector(match_labels=LABELS), template=template),
    )


class World:
    """Revisions of one owner; `show` copies them from the API to the index."""

    def __init__(self, one: StatefulSet) -> None:
        self.api, self.index = MemoryApi(VirtualClock()), ObjectIndex[ControllerRevision]()
        self.api.put(STATEFUL_SETS.resource, serializer.to_document(one))
        self.revisions = ControllerRevisions(client=self.api, kind=STATEFUL_SETS, revisions=self.index)

    def show(self) -> None:
        for document in self.api.documents(CONTROLLER_REVISIONS.resource):
            self.index.put(serializer.from_document(document, ControllerRevision))

    async def create(self, one: StatefulSet, number: int = 1) -> tuple[ControllerRevision, int | None]:
        def make(count: int | None) -> ControllerRevision:
            return new_revision(one, one.spec.template, number=number, naming=NAMING, collision_count=count)

        return await self.revisions.create(one, make, 0)

    async def claimed(self, one: StatefulSet) -> list[tuple[str, int]]:
        return [(found.metadata.name, found.revision) for found in await self.revisions.claim(one, SELECTOR)]


async def test_revision_is_created_once() -> None:
    """A second creation returns the first revision."""
    world = World(owner())
    first, count = await world.create(owner())
    assert (first.metadata.name, count) == ("web-h0", 0)
    assert await world.create(owner()) == (first, 0)
    assert len(world.api.documents(CONTROLLER_REVISIONS.resource)) == 1


@pytest.mark.parametrize(
    "first",
    [pytest.param(owner(image="two"), id="other data"), pytest.param(owner("former"), id="other owner")],
)
async def test_name_that_is_taken_makes_the_count_go_up(first: StatefulSet) -> None:
    """The revision of the name has other data, or belongs to a former owner of the same name."""
    world = World(owner())
    await world.create(first)
    made, count = await world.create(owner())
    assert (made.metadata.name, count) == ("web-h1", 1)


async def test_revision_counts_before_it_is_seen() -> None:
    """Otherwise the next revision would get the same number."""
    world = World(owner())
    first, _ = await world.create(owner())
    assert await world.claimed(owner()) == [("web-h0", 1)]
    await world.revisions.renumber(first, 4)
    assert await world.claimed(owner()) == [("web-h0", 4)]
    world.show()
    calls = len(world.api.calls)
    assert await world.claimed(owner()) == [("web-h0", 4)]
    assert len(world.api.calls) == calls


async def test_revision_that_is_gone_before_it_is_seen_does_not_count() -> None:
    """Deleting it again is no error."""
    world = World(owner())
    first, _ = await world.create(owner())
    await world.revisions.delete(first)
    await world.revisions.delete(first)
    assert await world.claimed(owner()) == []


async def test_orphan_is_adopted_and_a_relabelled_revision_released() -> None:
    """The labels decide; setting one label keeps the others."""
    world = World(owner())
    first, _ = await world.create(owner())
    alone = serializer.to_document(first) | {
        "metadata": {"name": "old", "namespace": "ns", "uid": "o", "labels": LABELS}
    }
    world.api.put(CONTROLLER_REVISIONS.resource, alone)
    world.show()
    assert sorted(await world.claimed(owner())) == [("old", 1), ("web-h0", 1)]
    world.show()
    assert len(world.index.managed_by("u")) == 2
    changed = await world.revisions.label(first, "app", "other")
    assert changed.metadata.labels == {"app": "other", "hash": "h0"}
    world.show()
    assert await world.claimed(owner()) == [("old", 1)]


async def test_adoption_that_fails_is_raised() -> None:
    """The owner was replaced by another of its name."""
    world = World(owner("successor"))
    alone = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {}}
    world.api.put(
        CONTROLLER_REVISIONS.resource,
        alone | {"metadata": {"name": "old", "namespace": "ns", "uid": "o", "labels": LABELS}},
    )
    world.show()
    with pytest.raises(ClaimError, match="original StatefulSet ns/web is gone"):
        await world.claimed(owner())
