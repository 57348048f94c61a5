"""Leader election on a whole API server and virtual time: one candidate leads at a time, and another takes over."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pykubelet.aio.tasks import start_supervised
from pykubelet.api.errors import NotReached
from pykubelet.api.generated.core import EventSource
from pykubelet.api.scheme import EVENTS, LEASES
from pykubelet.client.interface import Client
from pykubelet.client.leaderelection import LeaderElector, LeadershipLostError
from pykubelet.client.recorder import Recorder
from pykubelet.testing.faults import CALL_FAULTS, Fault, FaultyClient
from pykubelet.testing.local_api import local_api
from pykubelet.testing.virtual_time import VirtualClock

LEASE = ("kube-system", "pykubelet-controllers")


class Cut(FaultyClient):
    """A client that can be disconnected: requests then hang or are refused."""

    def __init__(self, inner: Client) -> None:
        super().__init__(inner, Fault.REFUSED, at=2**62)
        self.is_cut, self.hangs = False, False

    async def _before(self) -> bool:
        if self.is_cut and self.hangs:
            await asyncio.sleep(3600)
        if self.is_cut:
            raise NotReached("connection refused")
        return await super()._before()


class Term:
    """The work of a leader: records who leads and when, and fails if two lead at once."""

    def __init__(self) -> None:
        self.leading: list[str] = []
        self.history: list[tuple[str, float]] = []

    async def lead(self, name: str) -> None:
        assert not self.leading, "two lead at once"
        self.leading.append(name)
        self.history.append((name, asyncio.get_running_loop().time()))
        try:
            await asyncio.sleep(10**6)
        finally:
            self.leading.remove(name)


class Election:
    """Candidates for one lease, and the record of their terms."""

    def __init__(self, client: Client) -> None:
        self.client, self.clock, self.term = client, VirtualClock(), Term()

    def elector(self, name: str, client: Any = None) -> LeaderElector:
        recorder = Recorder(sink=self.client, source=EventSource(component="leader"), clock=self.clock)
        return LeaderElector(
            client=client or self.client, recorder=recorder, clock=self.clock, lease=LEASE, identity=name
        )

    async def stand(self, name: str, client: Any = None) -> None:
        """Run for leader forever, also after losing the lease."""
        while True:
            try:
                await self.elector(name, client).run(lambda: self.term.lead(name))
            except LeadershipLostError:
                continue

    async def holder(self) -> str | None:
        found = await self.client.get(LEASES, LEASE[1], namespace=LEASE[0])
        return found.spec.holder_identity


@pytest.fixture
async def election(tmp_path: Path) -> AsyncIterator[Election]:
    async with local_api(tmp_path) as api:
        yield Election(api.client)


async def test_one_of_several_leads_and_the_next_takes_over_at_once_when_it_stops(election: Election) -> None:
    """A leader that stops releases the lease, and the transition is counted."""
    async with asyncio.TaskGroup() as group:
        tasks = {name: start_supervised(group, name, lambda name=name: election.stand(name)) for name in "abc"}  # type: ignore[misc]
        await asyncio.sleep(100)
        (first,) = election.term.leading
        assert await election.holder() == first
        tasks[first].cancel()
        started = asyncio.get_running_loop().time()
        await asyncio.sleep(10)
        (second,) = election.term.leading
        assert second != first
        assert election.term.history[-1][1] - started <= 5
        found = await election.client.get(LEASES, LEASE[1], namespace=LEASE[0])
        assert found.spec.lease_transitions == 1
        for task in tasks.values():
            task.cancel()
    assert election.term.leading == []
    assert await election.holder() == ""


@pytest.mark.parametrize("hangs", [True, False], ids=["requests hang", "requests are refused"])
async def test_leader_that_is_cut_off_stops_before_another_may_start(election: Election, hangs: bool) -> None:
    """It stops within the 10 seconds it has to renew its lease, which lasts 15, so two never lead at once."""
    client = Cut(election.client)
    async with asyncio.TaskGroup() as group:
        tasks = [start_supervised(group, "a", lambda: election.stand("a", client))]
        await asyncio.sleep(50)
        tasks.append(start_supervised(group, "b", lambda: election.stand("b")))
        await asyncio.sleep(50)
        assert election.term.leading == ["a"]
        client.hangs, client.is_cut = hangs, True
        await asyncio.sleep(12.1)
        assert election.term.leading == []
        await asyncio.sleep(20)
        assert election.term.leading == ["b"]
        client.is_cut = False
        await asyncio.sleep(100)
        assert election.term.leading == ["b"]
        for task in tasks:
            task.cancel()


async def test_leader_whose_lease_is_taken_away_stops(election: Election) -> None:
    """It leads again when the other holder's lease has expired."""
    async with asyncio.TaskGroup() as group:
        task = start_supervised(group, "a", lambda: election.stand("a"))
        await asyncio.sleep(50)
        body = {"spec": {"holderIdentity": "z", "leaseDurationSeconds": 600}}
        await election.client.patch(LEASES, LEASE[1], body, namespace=LEASE[0])
        await asyncio.sleep(5)
        assert election.term.leading == []
        await asyncio.sleep(1000)
        assert election.term.leading == ["a"]
        task.cancel()


async def test_lease_is_released_when_the_work_ends_or_fails(election: Election) -> None:
    """An exception of the work propagates unwrapped; events on the lease name the leader."""
    recorder = Recorder(sink=election.client, source=EventSource(component="leader"), clock=election.clock)
    elector = LeaderElector(client=election.client, recorder=recorder, clock=election.clock, lease=LEASE, identity="a")

    async def fail() -> None:
        raise ValueError("no")

    async def end() -> None:
        await asyncio.sleep(1)

    with pytest.raises(ValueError, match="no"):
        await elector.run(fail)
    assert (await election.holder(), elector.leader) == ("", "")
    await elector.run(end)
    async with asyncio.TaskGroup() as group:
        task = start_supervised(group, "events", lambda: recorder.run(asyncio.Event()))
        await asyncio.sleep(1)
        task.cancel()
    events = await election.client.list(EVENTS)
    assert {(event.reason, event.message) for event in events.items} == {
        ("LeaderElection", "a became leader"),
        ("LeaderElection", "a stopped leading"),
    }


@pytest.mark.parametrize("fault", CALL_FAULTS, ids=lambda fault: str(fault.name))
async def test_one_fault_anywhere_costs_no_term(fault: Fault, election: Election) -> None:
    """The candidate becomes leader and stays leader, whichever call fails."""
    for at in itertools.count():
        client, term = FaultyClient(election.client, fault, at=at), Term()
        election.term = term
        async with asyncio.TaskGroup() as group:
            task = start_supervised(group, "a", lambda client=client: election.stand("a", client))  # type: ignore[misc]
            await asyncio.sleep(40)
            assert term.leading == ["a"]
            assert len(term.history) == 1
            task.cancel()
        if not client.injected or at > 40:
            break
        await election.client.delete(LEASES, LEASE[1], namespace=LEASE[0])
    assert at >= 10
