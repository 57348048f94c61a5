"""The guarantees of a watch hold while the server is killed repeatedly under load."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from pykubelet_process import ADMIN_TOKEN, ServerProcess

KILLS = 50
WRITERS = 4
PATH = "/api/v1/namespaces/default/configmaps"


class Recorder:
    """Follows the collection like a client (list, watch, resume) and records what it receives."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self.http, self.url = http, url
        self.revision = ""
        self.revisions: list[int] = []
        self.state: dict[str, str] = {}
        self.lists = 0

    async def follow(self) -> None:
        while True:
            try:
                if not self.revision:
                    await self._list()
                await self._watch()
            except (aiohttp.ClientError, TimeoutError, ConnectionError):
                await asyncio.sleep(0.02)

    async def _list(self) -> None:
        async with self.http.get(self.url + PATH) as response:
            assert response.status == 200
            listed = await response.json()
        self.lists += 1
        self.revision = listed["metadata"]["resourceVersion"]
        self.state = {item["metadata"]["name"]: item["data"]["n"] for item in listed["items"] if "data" in item}

    async def _watch(self) -> None:
        query = {"watch": "1", "resourceVersion": self.revision, "allowWatchBookmarks": "true"}
        async with self.http.get(self.url + PATH, params=query) as response:
            async for line in response.content:
                if line.endswith(b"\n"):
                    self._hear(json.loads(line))

    def _hear(self, event: dict[str, Any]) -> None:
        if event["type"] == "ERROR":
            assert event["object"]["code"] == 410
            self.revision = ""
            return
        item = event["object"]
        self.revision = item["metadata"]["resourceVersion"]
        if event["type"] == "BOOKMARK":
            return
        self.revisions.append(int(self.revision))
        if event["type"] == "DELETED":
            del self.state[item["metadata"]["name"]]
        else:
            known = item["metadata"]["name"] in self.state
            assert known == (event["type"] == "MODIFIED")
            self.state[item["metadata"]["name"]] = item["data"]["n"]


class Writer:
    """Counts up in one config map, deletes it now and then, and remembers what the server answered."""

    def __init__(self, http: aiohttp.ClientSession, url: str, name: str) -> None:
        self.http, self.url, self.name = http, url, name
        self.number = 0
        self.answered: str | None = None
        self.unsure: set[str | None] = set()

    async def work(self) -> None:
        while True:
            self.number += 1
            wanted = None if self.number % 7 == 0 else str(self.number)
            self.unsure.add(wanted)
            try:
                await self._put(wanted)
            except (aiohttp.ClientError, ConnectionError, TimeoutError):
                await asyncio.sleep(0.02)
            else:
                self.answered = wanted
                self.unsure.clear()

    async def _put(self, wanted: str | None) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": self.name}, "data": {"n": wanted or ""}}
        one = f"{self.url}{PATH}/{self.name}"
        if wanted is None:
            async with self.http.delete(one) as response:
                assert response.status in (200, 404)
            return
        async with self.http.put(one, json=body) as response:
            missing = response.status == 404
            assert missing or response.status == 200, await response.text()
        if missing:
            async with self.http.post(self.url + PATH, json=body) as response:
                assert response.status == 201, await response.text()


@pytest.mark.timeout(300)
async def test_watch_is_ordered_unique_complete_and_resumable_through_fifty_kills(tmp_path: Path) -> None:
    """No answered write is lost; no event is lost, repeated or out of order; the client never has to relist."""
    server = ServerProcess(tmp_path)
    await asyncio.to_thread(server.start)
    connector = aiohttp.TCPConnector(ssl=server.tls(), force_close=True)
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    async with aiohttp.ClientSession(connector=connector, headers=headers) as http:
        recorder = Recorder(http, server.url)
        writers = [Writer(http, server.url, f"w{number}") for number in range(WRITERS)]
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(recorder.follow())
            working = [group.create_task(writer.work()) for writer in writers]
            for number in range(KILLS):
                await asyncio.sleep(0.01 * (number % 10))
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            await asyncio.sleep(0.5)
            for task in working:
                task.cancel()
            await asyncio.sleep(1)
            watching.cancel()
        final = Recorder(http, server.url)
        await final._list()
    await asyncio.to_thread(server.stop)
    assert sum(writer.number for writer in writers) > KILLS
    assert recorder.revisions == sorted(set(recorder.revisions))
    assert recorder.lists == 1
    assert recorder.state == {name: value for name, value in final.state.items() if name.startswith("w")}
    for writer in writers:
        assert final.state.get(writer.name) in {writer.answered, *writer.unsure}
