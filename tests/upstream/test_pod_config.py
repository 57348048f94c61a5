"""Spec 2.12: merging the pod sources, and the sources of files and of the API server.

Cases 22 to 26 are about decoding a manifest (test_static_pod.py); 35 to 40 need sockets (real/test_url_source.py).
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pykubelet.api.generated.core import Container, ObjectReference, Pod, PodSpec, PodStatus
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.pods import CONFIG_MIRROR, CONFIG_SEEN, CONFIG_SOURCE
from pykubelet.kubelet.config.config import NotificationMode, PodConfig, SourcesReady
from pykubelet.kubelet.types import PodOperation, PodUpdate
from pykubelet.testing.virtual_time import ManualClock

SOURCE = "test"
INCREMENTAL, SNAPSHOT, BOTH = (
    NotificationMode.INCREMENTAL,
    NotificationMode.SNAPSHOT,
    NotificationMode.SNAPSHOT_AND_UPDATES,
)
ADD, SET, UPDATE, DELETE, REMOVE = (
    PodOperation.ADD,
    PodOperation.SET,
    PodOperation.UPDATE,
    PodOperation.DELETE,
    PodOperation.REMOVE,
)


class Events:
    """Records the emitted events."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, str, str]] = []

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        self.told.append((involved.uid, event_type, reason, message))


class Config:
    """A PodConfig with one source, driven message by message."""

    def __init__(self, mode: NotificationMode = INCREMENTAL) -> None:
        self.events, self.clock = Events(), ManualClock()
        self.config = PodConfig(mode=mode, clock=self.clock, recorder=self.events)
        self.config.channel(SOURCE)

    def send(self, op: PodOperation, *pods: Pod) -> tuple[PodUpdate, ...]:
        return self.config.merge(SOURCE, PodUpdate(op, SOURCE, pods))

    def tell(self, op: PodOperation, *pods: Pod) -> list[tuple[str, list[str]]]:
        """Send a message, and return the updates: operation, and names with namespaces."""
        return [shown(update) for update in self.send(op, *pods)]


def shown(update: PodUpdate) -> tuple[str, list[str]]:
    return update.op.name, sorted(f"{pod.metadata.name}/{pod.metadata.namespace}" for pod in update.pods)


def pod(name: str, namespace: str = "new", *, image: str = "image", phase: str = "", **metadata: Any) -> Pod:
    return Pod(
        metadata=ObjectMeta(**{"uid": name + namespace, **metadata}, name=name, namespace=namespace),
        spec=PodSpec(containers=(Container(name="c", image=image),)),
        status=PodStatus(phase=phase),
    )


DELETED: dict[str, Any] = {"deletion_timestamp": "2026-01-01T00:00:00Z", "deletion_grace_period_seconds": 30}


@pytest.mark.parametrize(
    "namespace",
    [
        pytest.param("new", id="2.12-01 a pod is added, and sync tells it again"),
        pytest.param("", id="2.12-02 an empty namespace passes through"),
        pytest.param("default", id="2.12-02 the default namespace passes through"),
    ],
)
async def test_new_pod_is_added_and_synced(namespace: str) -> None:
    tester = Config()
    assert tester.tell(ADD, pod("foo", namespace)) == [("ADD", [f"foo/{namespace}"])]
    tester.config.sync()
    updates = tester.config.updates()
    assert [await anext(updates), await anext(updates)] == [
        PodUpdate(ADD, SOURCE, tester.config.pods()),
        PodUpdate(SET, "*", tester.config.pods()),
    ]


Step = tuple[PodOperation, Sequence[Pod], Sequence[tuple[str, list[str]]]]
ONE = pod("foo")
THREE = (pod("foo"), pod("foo2"), pod("foo3"))
FIRST_THREE: Step = (SET, THREE, [("ADD", ["foo/new", "foo2/new", "foo3/new"])])
FIRST: Step = (ADD, [ONE], [("ADD", ["foo/new"])])


def annotated(**annotations: str) -> Pod:
    return pod("foo", annotations=annotations)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(
            [(ADD, [pod("foo", "default")], [("ADD", ["foo/default"])]), FIRST], id="2.12-03 two namespaces, two pods"
        ),
        pytest.param([FIRST, (ADD, [pod("foo")], [])], id="2.12-04 the same again is nothing"),
        pytest.param(
            [
                FIRST,
                (ADD, [pod("foo", image="other")], [("UPDATE", ["foo/new"])]),
                (REMOVE, [pod("foo")], [("REMOVE", ["foo/new"])]),
            ],
            id="2.12-05 changed, then removed",
        ),
        pytest.param([FIRST, (DELETE, [pod("foo", **DELETED)], [("DELETE", ["foo/new"])])], id="2.12-06 deletion"),
        pytest.param(
            [
                (ADD, THREE, [("ADD", ["foo/new", "foo2/new", "foo3/new"])]),
                (
                    SET,
                    [pod("foo2", image="other"), pod("foo3"), pod("foo4")],
                    [("REMOVE", ["foo/new"]), ("ADD", ["foo4/new"]), ("UPDATE", ["foo2/new"])],
                ),
            ],
            id="2.12-07 a SET removes, adds and updates, in this order",
        ),
        *(
            pytest.param(
                [
                    FIRST_THREE,
                    (op, THREE, []),
                    (op, [pod("foo", phase="Running"), *THREE[1:]], [("RECONCILE", ["foo/new"])]),
                    (op, [pod("foo", image="other", phase="Failed"), *THREE[1:]], [("UPDATE", ["foo/new"])]),
                ],
                id=f"2.12-08 a changed status is a reconcile, with {op.name}",
            )
            for op in (ADD, SET)
        ),
        pytest.param([(SET, [], [("ADD", [])]), (SET, [], []), FIRST], id="2.12-09 first SET empty"),
        pytest.param(
            [
                (SET, [annotated(a="1"), THREE[1]], [("ADD", ["foo/new", "foo2/new"])]),
                (SET, [annotated(a="2"), THREE[1]], [("UPDATE", ["foo/new"])]),
                (SET, [annotated(a="2", b="1"), THREE[1]], [("UPDATE", ["foo/new"])]),
                (SET, [annotated(b="1"), THREE[1]], [("UPDATE", ["foo/new"])]),
            ],
            id="2.12-12 annotations changed, added, removed",
        ),
        pytest.param(
            [
                (SET, [pod("foo", labels={"a": "1"}), THREE[1]], [("ADD", ["foo/new", "foo2/new"])]),
                (SET, [pod("foo", labels={"a": "2"}), THREE[1]], [("UPDATE", ["foo/new"])]),
            ],
            id="2.12-13 label changed",
        ),
        *(
            pytest.param([FIRST, (ADD, [annotated(**{key: "x"})], [])], id=f"2.12-16 local annotation {key} is ignored")
            for key in (CONFIG_MIRROR, CONFIG_SEEN, CONFIG_SOURCE)
        ),
        pytest.param(
            [
                (ADD, [pod("foo", **DELETED)], [("ADD", ["foo/new"])]),
                (ADD, [pod("foo", labels={"a": "1"}, **DELETED)], [("DELETE", ["foo/new"])]),
            ],
            id="2.12-17 first seen while being deleted, then labelled",
        ),
        pytest.param([FIRST, (REMOVE, [pod("bar")], [])], id="2.12-19 unknown UID removed"),
    ],
)
def test_updates_for_messages_are_those_of_upstream(steps: list[Step]) -> None:
    tester = Config()
    for op, pods, expected in steps:
        assert tester.tell(op, *pods) == expected


@pytest.mark.parametrize(
    ("mode", "steps"),
    [
        pytest.param(
            mode,
            [(SET, [], [("SET", [])]), (SET, [], []), (ADD, [ONE], [("SET", ["foo/new"])])],
            id=f"2.12-09 first SET empty, {mode}",
        )
        for mode in (SNAPSHOT, BOTH)
    ]
    + [
        pytest.param(
            mode,
            [(ADD, [ONE], [("SET", ["foo/new"])]), (ADD, [pod("foo", image="other")], [(told, ["foo/new"])])],
            id=f"{number} changes in mode {mode}",
        )
        for number, mode, told in (("2.12-10", BOTH, "UPDATE"), ("2.12-11", SNAPSHOT, "SET"))
    ],
)
async def test_snapshot_modes(mode: NotificationMode, steps: list[Step]) -> None:
    tester = Config(mode)
    for op, pods, expected in steps:
        assert tester.tell(op, *pods) == expected
    tester.config.sync()
    updates = [await anext(tester.config.updates()) for _ in steps if _[2]]
    assert shown(await anext(tester.config.updates())) == ("SET", ["foo/new"])
    assert [update.op.name for update in updates] == [told for *_, expected in steps for told, _ in expected]


@pytest.mark.parametrize("number", [pytest.param("2.12-14", id="2.12-14 channels and seen_all_sources side by side")])
async def test_channels_can_be_added_while_sources_are_queried(number: str) -> None:
    config = Config().config

    async def register() -> None:
        for index in range(100):
            config.channel(f"source {index}")
            await asyncio.sleep(0)

    async def ask() -> None:
        for _ in range(100):
            assert not config.seen_all_sources({SOURCE})
            await asyncio.sleep(0)

    await asyncio.gather(register(), ask())
    assert len(config.sources()) == 101


@pytest.mark.parametrize(
    "number", [pytest.param("2.12-15", id="2.12-15 second pod of a name is dropped with an event")]
)
def test_duplicate_name_is_dropped(number: str) -> None:
    tester = Config()
    assert tester.tell(SET, pod("foo", uid="1"), pod("foo", uid="2")) == [("ADD", ["foo/new"])]
    assert [pod.metadata.uid for pod in tester.config.pods()] == ["1"]
    message = 'Error validating pod foo_new(2) from test due to duplicate pod name "foo", ignoring'
    assert tester.events.told == [("2", "Warning", "FailedValidation", message)]


@pytest.mark.parametrize("number", [pytest.param("2.12-18", id="2.12-18 first-seen stamp survives an update")])
def test_first_seen_stamp_survives(number: str) -> None:
    tester = Config()
    [added] = tester.send(ADD, ONE)
    tester.clock.advance(60)
    [updated] = tester.send(UPDATE, pod("foo", image="other", annotations={CONFIG_SEEN: "x"}))
    stamps = [update.pods[0].metadata.annotations[CONFIG_SEEN] for update in (added, updated)]
    assert stamps == ["2026-01-01T00:00:00.000000Z"] * 2


@pytest.mark.parametrize("number", [pytest.param("2.12-20", id="2.12-20 emitted pods cannot change what is stored")])
def test_emitted_pods_are_values(number: str) -> None:
    tester = Config()
    [added] = tester.send(ADD, ONE)
    with pytest.raises(AttributeError):
        setattr(added.pods[0], "spec", PodSpec())  # noqa: B010  mypy refuses the plain form, which is the point
    assert tester.tell(ADD, ONE) == []


@pytest.mark.parametrize("number", [pytest.param("2.12-21", id="2.12-21 channels by name, merged independently")])
async def test_channels_are_muxed(number: str) -> None:
    config, ready = Config().config, asyncio.Event()
    one, two = config.channel("one"), config.channel("two")
    assert config.channel("one") is one
    assert one is not two
    with pytest.raises(ValueError, match="name"):
        config.channel("")
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(config.run(ready))
        await ready.wait()
        await two.send(SET, (pod("b"),))
        await one.send(SET, (pod("a"),))
        late = config.channel("late")
        await late.send(SET, ())
        updates = [await anext(config.updates()) for _ in range(3)]
        running.cancel()
    told = {(update.source, *(pod.metadata.name for pod in update.pods)) for update in updates}
    assert told == {("one", "a"), ("two", "b"), ("late",)}


@pytest.mark.parametrize(
    "number", [pytest.param("2.12-44", id="2.12-44 all sources seen needs SET and update of each")]
)
def test_seen_all_sources(number: str) -> None:
    config = PodConfig(clock=ManualClock(), recorder=Events())
    ready = SourcesReady(config)
    assert ready.all_ready()
    config.channel("a")
    config.channel("b")
    answers = []
    for source, op in (("a", ADD), ("a", SET), ("b", ADD), ("b", SET)):
        for update in config.merge(source, PodUpdate(op, source, (pod(op.name),))):
            ready.saw(update)
        answers.append((ready.is_ready("a"), ready.is_ready("b"), ready.all_ready(), ready.waiting_for()))
    assert answers == [
        (False, False, False, ("a", "b")),
        (True, False, False, ("b",)),
        (True, False, False, ("b",)),
        (True, True, True, ()),
    ]
    assert not config.seen_all_sources({"a"})
    assert config.seen_all_sources({"a", "b", "c"})
