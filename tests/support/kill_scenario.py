"""The kill -9 scenario: pods are created, changed and deleted while a node is killed; then their state is checked."""

import asyncio
import os
import random  # noqa: TID251  the seed is reported, so a run can be repeated
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kill_lab import PODS, KillLab, until
from kill_pods import (
    PROBE,
    SLOW_STOP,
    Shown,
    Wish,
    conditions,
    container_statuses,
    crowd,
    endless,
    ids_seen,
    job,
    mapped,
    moves,
    second_try,
    untold_ends,
    wrong_now,
)
from process_cluster import NODE
from pykubelet_process import NodeProcess

MOMENTS = ("launch", "create", "create", "delete", "edit", "idle")
LOST = (255, "Unknown")
"""How a container has ended of which nobody knows."""
READY_SECONDS = 1.2
"""A node that takes longer to be ready is killed all the same: the machine may have other things to do."""


class Story:
    """The pods that are created, changed and deleted while a node is killed."""

    def __init__(self, lab: KillLab, seed: int) -> None:
        self.lab, self.random = lab, random.Random(seed)
        self.wishes: list[Wish] = []
        self._count = 0

    async def begin(self) -> None:
        """Create the pods that exist from the start."""
        lab = self.lab
        await lab.ask(
            "POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "map"}, "data": {"key": "value"}}
        )
        await self.create(endless(lab, "plain"))
        await self.create(endless(lab, "probed", readinessProbe=PROBE))
        await self.create(mapped(lab, "mapped", "map"))
        await self.create(crowd(lab, "crowd"))
        await self.create(job(lab, "done", 0, 0))
        await self.create(job(lab, "failed", 9, 0))
        for wish in (endless(lab, "static"), endless(lab, "static-probed", readinessProbe=PROBE)):
            self.write(wish)
        self.edit()

    async def create(self, wish: Wish) -> None:
        self.wishes.append(wish)
        await self.lab.create(wish.document)

    def write(self, wish: Wish) -> None:
        wish.is_static = True
        self.wishes.append(wish)
        self.lab.write_manifest(wish.document)

    async def create_some(self) -> None:
        """Create one to three pods of random kinds."""
        for _ in range(self.random.randint(1, 3)):
            self._count += 1
            name, lab = f"pod-{self._count}", self.lab
            match self.random.randrange(7):
                case 0 | 1:
                    wish = job(lab, name, self.random.choice((0, 1, 7, 42)), self.random.random() * 2)
                case 2:
                    wish = second_try(lab, name, self.random.choice(("Always", "OnFailure")))
                case 3:
                    wish = crowd(lab, name)
                case 4:
                    wish = mapped(lab, name, "map")
                case 5:
                    wish = endless(lab, name, script=SLOW_STOP)
                case _:
                    wish = endless(lab, name, readinessProbe=PROBE)
            await self.create(wish)

    async def delete_one(self) -> None:
        """Delete a random one of the pods that were created later."""
        found = [one for one in self.wishes if one.name.startswith("pod-") and not one.is_deleted]
        if found:
            wish = self.random.choice(found)
            wish.is_deleted = True
            await self.lab.ask("DELETE", f"{PODS}/{wish.name}")

    def edit(self) -> None:
        """Change a manifest, which replaces its pod; sometimes remove it, and write it again with the next edit."""
        self._count += 1
        old = next((one for one in self.wishes if one.name == "edited"), None)
        if old is not None:
            self.wishes.remove(old)
            if not old.is_deleted and self.random.random() < 0.2:
                self.lab.remove_manifest("edited")
                old.is_deleted = True
                self.wishes.append(old)
                return
        wish = endless(self.lab, "edited", script=SLOW_STOP)
        wish.document["metadata"]["labels"] = {"version": str(self._count)}
        self.write(wish)

    async def wrong(self) -> list[str]:
        """How the current state differs from the expected one."""
        return wrong_now(self.lab, self.wishes, await self.lab.pods())

    async def act(self, moment: str) -> None:
        match moment:
            case "create":
                await self.create_some()
            case "delete":
                await self.delete_one()
            case "edit":
                self.edit()


async def kill_once(story: Story, node: NodeProcess, linger_seconds: float) -> None:
    """Start the node, change its pods, and kill it at a random moment."""
    chance, moment = story.random, story.random.choice(MOMENTS)
    is_before = chance.random() < 0.2
    if is_before:
        await story.act(moment)
    ready = node.launch()
    if moment != "launch":
        await asyncio.to_thread(ready.wait, READY_SECONDS)
        if not is_before:
            await story.act(moment)
    story.lab.note_spawner(node)
    # Most kills come soon after the change, while the node is busiest.
    await asyncio.sleep(linger_seconds * chance.random() ** 2)
    assert node.is_running, "".join(node.lines[-20:])
    await asyncio.to_thread(node.kill)


@asynccontextmanager
async def told_on_failure(node: NodeProcess, what: str) -> AsyncIterator[None]:
    """Adds a note and the node's last log lines to a failed assertion; kills the node at the end."""
    try:
        yield
    except AssertionError as error:
        error.add_note(f"{what}\n" + "".join(node.lines[-40:]))
        raise
    finally:
        if node.is_running:
            await asyncio.to_thread(node.kill)


async def survive_kills(lab: KillLab, kills: int, *, linger_seconds: float = 0.6) -> None:
    """A node killed `kills` times, up to `linger_seconds` after each change, still reaches the expected state."""
    seed = int(os.environ.get("KILL_SEED") or int.from_bytes(os.urandom(4)))
    story, node = Story(lab, seed), lab.new_node()
    async with lab.following(), told_on_failure(node, f"again: KILL_SEED={seed}"):
        await asyncio.to_thread(node.start)
        await story.begin()
        await until(story.wrong)
        node_before = conditions(await lab.ask("GET", f"/api/v1/nodes/{NODE}"))
        await asyncio.to_thread(node.kill)
        for _ in range(kills):
            await kill_once(story, node, linger_seconds)
        await asyncio.to_thread(node.start)
        await until(story.wrong)
        node_after = conditions(await lab.ask("GET", f"/api/v1/nodes/{NODE}"))
        assert node_after == node_before, f"{node_after}, not {node_before}"
        pods = [wish for wish in story.wishes if wish.name != "edited"]
        kept = [wish for wish in pods if not wish.is_deleted]
        wrong = [move for wish in pods for move in moves(lab, wish)]
        wrong += [end for wish in pods if wish.is_deleted for end in untold_ends(lab, wish)]
        seen = {wish.name: (ids_seen(lab, wish), wish.starts) for wish in kept}
        wrong += [
            f"{name}: {ids} containers shown, not {starts}" for name, (ids, starts) in seen.items() if ids != starts
        ]
        assert not wrong, wrong


def last_states(pod: Any) -> dict[str, tuple[int, str]]:
    """Exit code and reason of the previous run of each restarted container of a pod."""
    ends = {one["name"]: one["lastState"]["terminated"] for one in container_statuses(pod) if one.get("lastState")}
    return {name: (end["exitCode"], end["reason"]) for name, end in ends.items()}


def again(wish: Wish) -> None:
    """Expect one more start of each of its containers."""
    wish.starts = {name: count + 1 for name, count in wish.starts.items()}


async def survive_everything(lab: KillLab) -> None:
    """After all programs are killed, running containers are found, ended ones reported, missing ones started."""
    story, node, end = Story(lab, 0), lab.new_node(), lab.ledgers / "end"
    kept, lost, hit, static_lost = (endless(lab, name) for name in ("kept", "lost", "hit", "static-lost"))
    never = {name: job(lab, name, 0, 10_000) for name in ("never-lost", "never-hit", "never-kept")}
    ending = Wish(
        lab.pod(
            "ending", lab.container("ending", f"until [ -e {end} ]; do sleep 0.1; done; exit 7"), restartPolicy="Never"
        )
    )
    async with told_on_failure(node, "everything was killed"):
        await asyncio.to_thread(node.start)
        await story.begin()
        for wish in (kept, lost, hit, ending, *never.values()):
            wish.exit_codes = {}
            await story.create(wish)
        story.write(static_lost)
        await until(story.wrong)
        before = await lab.pods()
        for program in lab.programs(node):
            await asyncio.to_thread(program.kill)
        lab.kill_supervisors("lost", "never-lost", "static-lost")
        lab.kill_containers("hit", "never-hit")
        end.touch()
        for wish in (lost, hit, static_lost):
            again(wish)
        for wish, code in ((never["never-lost"], 255), (never["never-hit"], 137), (ending, 7)):
            wish.exit_codes = {"main": code}
        for program in lab.programs(node):
            await asyncio.to_thread(program.start)
        await until(story.wrong)
        after = await lab.pods()
        untouched = {"plain", "probed", "mapped", "crowd", "done", "failed", "static-node-1", "kept", "never-kept"}
        touched = {n: (before[n], after[n]) for n in untouched if Shown.of(before[n]) != Shown.of(after[n])}
        assert not touched, touched
        ends = {name: last_states(after[name])["main"] for name in ("lost", "static-lost-node-1", "hit")}
        assert set(ends.values()) == {LOST, (137, "Error")}, ends
        assert ends["hit"] == (137, "Error"), ends
