"""The verbs themselves give the recorded answers of kube-apiserver 1.34, without HTTP and in virtual time.

Tables and authorization are left to the replay over the network.
"""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.errors import ApiError
from pykubelet.apiserver.request import ApiResponse, SerializedEvent, WatchStream
from pykubelet.testing.local_api import local_api
from transcripts import Got, Step, differences, masked
from verb_requests import Asker

_FOLDER = Path(__file__).parent / "transcripts"
_NAMES = [path.stem for path in sorted(_FOLDER.glob("*.json")) if path.stem not in ("auth", "discovery", "tables")]
_NAMESPACE = "t0123abcd"
_REFERENCE = re.compile(r"\$\{([^}]+)\}")


class _Play:
    """The steps of one transcript, in order."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._live: dict[str, Any] = {}

    async def answer(self, step: Step) -> Got:
        body = self._filled(step.get("body"))
        data = body.encode() if isinstance(body, str) else body
        kind = step.get("headers", {}).get("Content-Type", "application/json")
        try:
            answer = await self._asker.handle(step["method"], self._filled(step["path"]), data, kind)
        except ApiError as error:
            got: Got = {"status": error.code, "body": error.to_status()}
        else:
            got = await self._watched(answer, step) if isinstance(answer, WatchStream) else _shown(answer)
        self._live[step["id"]] = got.get("body")
        await asyncio.sleep(step.get("wait", 0))
        return got

    async def _watched(self, stream: WatchStream, step: Step) -> Got:
        events: list[SerializedEvent] = []

        async def read() -> None:
            async for batch in stream.batches:
                events.extend(batch)

        async with asyncio.TaskGroup() as group:
            group.create_task(read())
            await asyncio.sleep(0.1)
            for inner in step.get("while", ()):
                await self.answer(inner)
        return {"status": 200, "events": [{"type": one.type, "object": json.loads(one.object)} for one in events]}

    def _filled(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._filled(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        return _REFERENCE.sub(self._referenced, value) if isinstance(value, str) else value

    def _referenced(self, match: re.Match[str]) -> str:
        name, *path = match[1].split(".")
        found: Any = _NAMESPACE if name == "ns" else self._live[name]
        for part in path:
            found = found[part]
        return str(found)


def _shown(answer: ApiResponse) -> Got:
    got: Got = {"status": answer.code, "body": json.loads(answer.text)}
    if answer.warnings:
        got["warning"] = ", ".join(f"299 - {json.dumps(text)}" for text in answer.warnings)
    return got


@pytest.mark.parametrize("name", _NAMES)
async def test_verbs_answer_as_kube_apiserver_did(name: str, tmp_path: Path) -> None:
    """Every step is replayed, except those about tables."""
    steps = json.loads((_FOLDER / f"{name}.json").read_bytes())["steps"]
    plain = [step for step in steps if "as=" not in step.get("headers", {}).get("Accept", "")]
    assert plain
    async with local_api(tmp_path) as api:
        asker = Asker(api)
        await asker.ask("POST", "/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
        play = _Play(asker)
        found = {}
        for step in plain:
            got = masked(await play.answer(step), _NAMESPACE, managed=step.get("managedFields", False))
            found[step["id"]] = differences(step, got)
    assert {step: wrong for step, wrong in found.items() if wrong} == {}
