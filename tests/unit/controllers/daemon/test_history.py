"""The revision history of a DaemonSet: one revision per template, which pods name in a label."""

from pykubelet.api import serializer
from pykubelet.api.generated.apps import ControllerRevision, DaemonSet, DaemonSetSpec
from pykubelet.api.generated.core import Pod, PodTemplateSpec
from pykubelet.api.generated.meta import LabelSelector, ObjectMeta
from pykubelet.api.scheme import CONTROLLER_REVISIONS, DAEMON_SETS
from pykubelet.client.indexer import ObjectIndex, PodIndex
from pykubelet.controllers.daemon.pods import DaemonPods
from pykubelet.controllers.daemon.update import DaemonSetHistory
from pykubelet.controllers.framework.controller_history import REVISION_LABEL, revision_data
from pykubelet.controllers.framework.expectations import CountingExpectations
from pykubelet.controllers.framework.ownership import new_controller_ref
from pykubelet.testing.fake_pod_control import FakePodControl
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock

LABELS = {"app": "x"}
TEMPLATE = PodTemplateSpec(metadata=ObjectMeta(labels=LABELS))
OTHER = PodTemplateSpec(metadata=ObjectMeta(labels=LABELS, annotations={"version": "other"}))
SET = DaemonSet(
    metadata=ObjectMeta(name="ds", namespace="ns", uid="ds-uid"),
    spec=DaemonSetSpec(selector=LabelSelector(match_labels=LABELS), template=TEMPLATE),
)
OWNERS = (new_controller_ref(SET),)


def pod(name: str, value: str) -> Pod:
    labels = {**LABELS, REVISION_LABEL: value}
    return Pod(metadata=ObjectMeta(name=name, namespace="ns", uid=name, labels=labels, owner_references=OWNERS))


class World:
    """The history of a DaemonSet over an API and its caches."""

    def __init__(self, *pods: Pod) -> None:
        self.api, self.control, self.index = MemoryApi(VirtualClock()), FakePodControl(), PodIndex()
        for one in pods:
            self.index.put(one)
        self.api.put(DAEMON_SETS.resource, serializer.to_document(SET))
        self.revisions: ObjectIndex[ControllerRevision] = ObjectIndex()
        acts = DaemonPods(
            client=self.api,
            pod_control=self.control,
            pods=self.index,
            expectations=CountingExpectations(),
            clock=VirtualClock(),
            burst=10,
        )
        self.history = DaemonSetHistory(client=self.api, revisions=self.revisions, pods=acts)

    def add(self, name: str, number: int, template: PodTemplateSpec, **labels: str) -> None:
        meta = ObjectMeta(name=name, namespace="ns", uid=name, labels={**LABELS, **labels}, owner_references=OWNERS)
        made = ControllerRevision(metadata=meta, data=revision_data(template), revision=number)
        self.api.put(CONTROLLER_REVISIONS.resource, serializer.to_document(made))
        self.revisions.put(made)

    def stored(self) -> list[tuple[str, int]]:
        found = self.api.documents(CONTROLLER_REVISIONS.resource)
        return sorted((one["metadata"]["name"], one["revision"]) for one in found)


async def test_old_version_that_comes_back_becomes_the_newest() -> None:
    """The revision keeps its name and hash, so its pods are up to date."""
    world = World()
    world.add("first", 1, TEMPLATE, **{REVISION_LABEL: "one"})
    world.add("second", 2, OTHER, **{REVISION_LABEL: "two"})
    versions = await world.history.revisions(SET)
    assert (versions.hash, [one.metadata.name for one in versions.old]) == ("one", ["second"])
    assert world.stored() == [("first", 3), ("second", 2)]


async def test_revision_without_a_label_is_called_by_its_name() -> None:
    """The revision itself is not changed."""
    world = World()
    world.add("first", 1, TEMPLATE)
    assert (await world.history.revisions(SET)).hash == "first"
    assert world.stored() == [("first", 1)]


async def test_two_revisions_of_one_template_become_one() -> None:
    """The newest stays; only pods of the removed revision are relabelled."""
    world = World(pod("a", "one"), pod("b", "two"), pod("c", "older"))
    world.add("first", 1, TEMPLATE, **{REVISION_LABEL: "one"})
    world.add("second", 2, TEMPLATE, **{REVISION_LABEL: "two"})
    assert (await world.history.revisions(SET)).hash == "two"
    assert world.stored() == [("second", 2)]
    assert [name for name, _ in world.control.patches] == ["a"]


async def test_revisions_with_pods_are_kept() -> None:
    """Above the history limit the oldest revisions without pods are deleted."""
    world = World()
    for number in range(1, 13):
        world.add(f"r{number:02}", number, OTHER, **{REVISION_LABEL: str(number)})
    old = tuple(world.revisions.managed_by("ds-uid"))
    await world.history.truncate(SET, old, [pod("a", "1")])
    left = [number for _, number in world.stored()]
    assert left == [1, *range(4, 13)]
