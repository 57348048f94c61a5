"""The event recorder never blocks, keeps the order for each object, and retries while the server is down."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api import schema
from pykubelet.api.errors import AlreadyExists, ApiError, Forbidden, NotReached, TooManyRequests
from pykubelet.api.generated.core import Event, EventSource, Node, ObjectReference, Pod
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.scheme import TypedKind
from pykubelet.api.serializer import Document
from pykubelet.client.recorder import NORMAL, WARNING, Recorder, reference_to
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock

POD = ObjectReference(api_version="v1", kind="Pod", name="web", namespace="apps", uid="u1")
SOURCE = EventSource(component="kubelet", host="node-1")


def pod(number: int) -> ObjectReference:
    return ObjectReference(api_version="v1", kind="Pod", name=f"pod-{number}", namespace="apps", uid=f"u{number}")


class Door:
    """Writes events to an in-memory API, after the prepared errors."""

    def __init__(self) -> None:
        self.api = MemoryApi(VirtualClock())
        self.answers: list[ApiError | None] = []
        self.tried_at: list[float] = []
        self.slow: set[str] = set()
        """Objects whose events take ten seconds to be written."""

    async def create(self, kind: TypedKind[Event], body: Event, *, namespace: str = "") -> Event:
        self._answer()
        if body.involved_object.name in self.slow:
            await asyncio.sleep(10)
        return await self.api.create(kind, body, namespace=namespace)

    async def patch(self, kind: TypedKind[Event], name: str, body: Any, *, namespace: str = "") -> Event:
        self._answer()
        return await self.api.patch(kind, name, body, namespace=namespace)

    def _answer(self) -> None:
        self.tried_at.append(asyncio.get_running_loop().time())
        if self.answers and (error := self.answers.pop(0)):
            raise error

    def events(self) -> list[Document]:
        return sorted(self.api.documents(schema.EVENTS), key=lambda event: str(event["metadata"]["name"]))


@asynccontextmanager
async def running(recorder: Recorder) -> AsyncIterator[None]:
    ready = asyncio.Event()
    task = asyncio.create_task(recorder.run(ready))
    try:
        await ready.wait()
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()


def recorder_on(door: Door) -> Recorder:
    return Recorder(sink=door, source=SOURCE, clock=VirtualClock(), rand=lambda: 0.25)


async def test_events_are_written_in_order_when_the_server_answers() -> None:
    """Each event is created in the namespace of its object."""
    door = Door()
    recorder = recorder_on(door)
    recorder.event(POD, NORMAL, "Pulled", "one")
    recorder.event(POD, WARNING, "Failed", "two")
    async with running(recorder):
        await asyncio.sleep(1)
    events = door.events()
    assert [(event["message"], event["type"], event["metadata"]["namespace"]) for event in events] == [
        ("one", "Normal", "apps"),
        ("two", "Warning", "apps"),
    ]
    assert events[0]["source"] == {"component": "kubelet", "host": "node-1"}
    assert events[0]["reportingComponent"] == "kubelet"
    assert events[0]["involvedObject"]["uid"] == "u1"
    assert events[0]["eventTime"] is None


async def test_repeated_event_patches_the_first_one() -> None:
    """Three reports become one event with count 3."""
    door = Door()
    recorder = recorder_on(door)
    async with running(recorder):
        for _ in range(3):
            recorder.event(POD, NORMAL, "BackOff", "again")
            await asyncio.sleep(10)
    (event,) = door.events()
    assert (event["count"], event["firstTimestamp"], event["lastTimestamp"]) == (
        3,
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:20Z",
    )
    assert [call.verb for call in door.api.calls] == ["create", "patch", "patch"]


async def test_event_is_created_anew_when_the_first_one_has_expired() -> None:
    """The server deletes old events; the count continues."""
    door = Door()
    recorder = recorder_on(door)
    async with running(recorder):
        recorder.event(POD, NORMAL, "BackOff", "again")
        await asyncio.sleep(1)
        name = door.events()[0]["metadata"]["name"]
        door.api._collection(schema.EVENTS).clear()
        recorder.event(POD, NORMAL, "BackOff", "again")
        await asyncio.sleep(1)
    (event,) = door.events()
    assert (event["count"], event["metadata"]["name"]) == (2, name)


async def test_many_different_messages_become_one_event() -> None:
    """Also when all are reported at the same instant."""
    door = Door()
    recorder = recorder_on(door)
    for number in range(15):
        recorder.event(POD, NORMAL, "Unhealthy", f"m{number}")
    async with running(recorder):
        await asyncio.sleep(1)
    events = door.events()
    assert len(events) == 10
    assert [event["count"] for event in events if event["message"].startswith("(combined")] == [6]


async def test_event_is_retried_while_the_server_does_not_answer() -> None:
    """After a random first delay every ten seconds; later events of the object wait."""
    door = Door()
    door.answers = [NotReached("refused"), NotReached("refused"), NotReached("refused")]
    recorder = recorder_on(door)
    recorder.event(POD, NORMAL, "First", "one")
    recorder.event(POD, NORMAL, "Second", "two")
    async with running(recorder):
        await asyncio.sleep(60)
    assert door.tried_at == [0, 2.5, 12.5, 22.5, 22.5]
    assert [event["reason"] for event in door.events()] == ["First", "Second"]


async def test_event_is_dropped_after_twelve_tries(caplog: pytest.LogCaptureFixture) -> None:
    """The next event starts with its own twelve tries."""
    door = Door()
    door.answers = [NotReached("refused")] * 12
    recorder = recorder_on(door)
    recorder.event(POD, NORMAL, "First", "one")
    recorder.event(POD, NORMAL, "Second", "two")
    async with running(recorder):
        await asyncio.sleep(300)
    assert door.tried_at[11] == door.tried_at[12] == 102.5
    assert [event["reason"] for event in door.events()] == ["Second"]
    assert "event dropped after too many attempts" in caplog.messages


@pytest.mark.parametrize(
    ("answer", "level"),
    [
        (Forbidden("no"), logging.WARNING),
        (TooManyRequests("slow down", retry_after_seconds=3), logging.WARNING),
        (AlreadyExists("there"), logging.DEBUG),
        (Forbidden("no", details={"causes": [{"reason": "NamespaceTerminating"}]}), logging.DEBUG),
    ],
)
async def test_event_is_dropped_when_the_server_rejects_it(
    answer: ApiError, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A rejection is never retried; expected ones are logged at debug level, others as warnings."""
    caplog.set_level(logging.DEBUG)
    door = Door()
    door.answers = [answer]
    recorder = recorder_on(door)
    recorder.event(POD, NORMAL, "First", "one")
    async with running(recorder):
        await asyncio.sleep(60)
    assert door.tried_at == [0]
    assert [record.levelno for record in caplog.records if record.message == "server rejected event"] == [level]


async def test_events_are_dropped_and_counted_when_the_queue_is_full(caplog: pytest.LogCaptureFixture) -> None:
    """The reporter never waits: beyond ten thousand queued, events are dropped, with a single log line."""
    recorder = recorder_on(Door())
    for number in range(10_003):
        recorder.event(pod(number % 500), NORMAL, "Flood", "again")
    assert (recorder.dropped, caplog.messages) == (3, [])
    async with running(recorder):
        await asyncio.sleep(1)
        recorder.event(POD, NORMAL, "Calm", "after")
        await asyncio.sleep(1)
    (record,) = caplog.records
    assert record.getMessage() == "too many queued events, some were dropped"
    assert recorder.dropped == 3


async def test_a_slow_write_for_one_object_does_not_delay_other_objects() -> None:
    """Events of the slow object are written later, in order."""
    door = Door()
    door.slow = {"pod-0"}
    recorder = recorder_on(door)
    for number in range(3):
        recorder.event(pod(0), NORMAL, f"R{number}", "slow")
    for number in range(1, 500):
        recorder.event(pod(number), NORMAL, "Pulled", "quick")
    async with running(recorder):
        await asyncio.sleep(1)
        quick = [event for event in door.events() if event["message"] == "quick"]
        await asyncio.sleep(100)
    # The last hundred wait: a short queue has a single writer, and that one writes the slow event.
    assert len(quick) >= 399
    assert [event["reason"] for event in door.events() if event["message"] == "slow"] == ["R0", "R1", "R2"]


@given(told=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=25), slow=st.sets(st.integers(0, 4)))
@settings(max_examples=40)
async def test_no_event_is_lost_or_overtakes_one_of_its_object(told: list[tuple[int, int]], slow: set[int]) -> None:
    """For any reports within the rate limit and any slow writes; equal events are counted."""
    door = Door()
    door.slow = {f"pod-{number}" for number in slow}
    recorder = recorder_on(door)
    async with running(recorder):
        for number, pause in told:
            recorder.event(pod(number), NORMAL, "Told", f"after {pause}")
            await asyncio.sleep(pause)
        await asyncio.sleep(10_000)
    for number in {number for number, _ in told}:
        events = [event for event in door.events() if event["involvedObject"]["name"] == f"pod-{number}"]
        messages = [f"after {pause}" for one, pause in told if one == number]
        assert {event["message"]: event["count"] for event in events} == Counter(messages)
        assert [event["message"] for event in events] == list(dict.fromkeys(messages))


async def test_event_of_an_unknown_type_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """The server would reject it, too."""
    door = Door()
    recorder = recorder_on(door)
    recorder.event(POD, "Strange", "First", "one")
    async with running(recorder):
        await asyncio.sleep(1)
    assert door.events() == []
    assert caplog.messages == ["unsupported event type"]


def test_reference_names_the_object_and_its_version() -> None:
    """Kind and apiVersion come from the type, the rest from the metadata."""
    metadata = ObjectMeta(name="web", namespace="apps", uid="u1", resource_version="7")
    assert reference_to(Pod(metadata=metadata)) == ObjectReference(
        api_version="v1", kind="Pod", name="web", namespace="apps", uid="u1", resource_version="7"
    )
    assert reference_to(Node(metadata=ObjectMeta(name="n"))).kind == "Node"
