"""Shared informers update the index, then call every handler; workers process the keys they enqueue."""

import asyncio

from pykubelet.aio.tasks import start_supervised
from pykubelet.api import schema
from pykubelet.api.generated.core import Pod, Secret
from pykubelet.api.scheme import PODS, SECRETS
from pykubelet.client.informers import Informers
from pykubelet.controllers.framework.work_queue import ControllerWorkers, WorkQueue
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock


def secret(name: str, value: str = "") -> dict[str, object]:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": value}


class RecordingHandler:
    """Records each event with the state of the index at that moment."""

    def __init__(self, informers: Informers) -> None:
        self._index, self.lines = informers.objects(SECRETS), list[str]()

    def added(self, new: Secret) -> None:
        self.lines.append(f"added {new.metadata.name}, known: {self._index.get('default/a') is not None}")

    def updated(self, old: Secret, new: Secret) -> None:
        self.lines.append(f"{old.type} became {new.type}")

    def deleted(self, old: Secret) -> None:
        self.lines.append(f"deleted {old.metadata.name}, known: {self._index.get('default/a') is not None}")


async def test_handlers_run_after_the_index_is_updated_and_a_failing_one_does_not_stop_the_others() -> None:
    """Every handler gets its events in order; `changed` gets new and updated objects."""
    api = MemoryApi(VirtualClock())
    informers = Informers(client=api, clock=VirtualClock())
    handler = RecordingHandler(informers)

    def fail(*_: object) -> None:
        raise ValueError("broken listener")

    informers.add_event_handler(SECRETS, added=fail, updated=fail, deleted=fail)
    informers.add_event_handler(SECRETS, added=handler.added, updated=handler.updated, deleted=handler.deleted)
    changed, deleted = list[str](), list[str]()
    informers.add_event_handler(SECRETS, changed=lambda new: changed.append(new.type))
    informers.add_event_handler(SECRETS, deleted=lambda old: deleted.append(old.metadata.name))
    api.put(schema.SECRETS, secret("a", "one"))
    ready = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        task = start_supervised(group, "informers", lambda: informers.run(ready))
        await ready.wait()
        api.put(schema.SECRETS, secret("a", "two"))
        await asyncio.sleep(1)
        await api.delete(SECRETS, "a", namespace="default")
        await asyncio.sleep(1)
        task.cancel()
    assert handler.lines == ["added a, known: True", "one became two", "deleted a, known: False"]
    assert (changed, deleted) == (["one", "two"], ["a"])


async def test_pods_is_one_shared_index() -> None:
    """Every access returns the same index of pods."""
    informers, seen = Informers(client=MemoryApi(VirtualClock()), clock=VirtualClock()), list[Pod]()
    assert informers.pods is informers.pods
    informers.add_event_handler(PODS, added=seen.append, updated=lambda _, new: seen.append(new), deleted=seen.append)
    ready = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        task = start_supervised(group, "informers", lambda: informers.run(ready))
        await ready.wait()
        task.cancel()
    assert (seen, len(informers.pods)) == ([], 0)


async def test_workers_start_after_the_informers_sync_and_process_a_key_once_at_a_time() -> None:
    """A key that is added while it is processed is processed again."""
    queue, informed, ready, active, done = WorkQueue(), asyncio.Event(), asyncio.Event(), set[str](), list[str]()

    async def sync(key: str) -> None:
        assert key not in active
        active.add(key)
        await asyncio.sleep(1)
        active.discard(key)
        done.append(key)

    loop = ControllerWorkers(name="test", process_next=lambda: queue.process_next(sync), informed=informed, workers=3)
    for key in ("a", "b", "c"):
        queue.add(key)
    async with asyncio.TaskGroup() as group:
        task = start_supervised(group, "loop", lambda: loop.run(ready))
        await asyncio.sleep(5)
        assert done == []
        informed.set()
        await ready.wait()
        await asyncio.sleep(0.5)
        queue.add("a")
        await asyncio.sleep(0.6)
        assert sorted(done) == ["a", "b", "c"]
        await asyncio.sleep(1)
        task.cancel()
    assert sorted(done) == ["a", "a", "b", "c"]
