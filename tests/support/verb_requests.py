"""Requests to the API handlers without HTTP."""

import asyncio
import json
from typing import Any, cast

from pykubelet.api.errors import ApiError
from pykubelet.apiserver.filters.requestinfo import request_info, served_at
from pykubelet.apiserver.request import MASTERS, ApiRequest, ApiResponse, SerializedEvent, UserInfo, Verb, WatchStream
from pykubelet.httpserver.request import read_target
from pykubelet.testing.local_api import LocalApi

USER = UserInfo("admin", (MASTERS,))
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


class Asker:
    """Sends requests to a server in this process."""

    def __init__(self, api: LocalApi) -> None:
        self.api = api

    async def handle(
        self, method: str, target: str, body: Any = None, content_type: str = ""
    ) -> ApiResponse | WatchStream:
        """The response or the watch that the server returns; raises ApiError if it rejects the request."""
        path, _, query = read_target(target)
        found = request_info(method, path, query)
        assert found is not None
        served = served_at(found, self.api.registry.find)
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        call = ApiRequest(
            user=USER,
            verb=cast("Verb", found.verb),
            served=served,
            namespace=found.namespace if served.resource.namespaced else "",
            name=found.name if found.named_in_path else "",
            subresource=found.subresource,
            query=query,
            body=data,
            content_type=content_type,
            user_agent="tests/1",
        )
        return await self.api.server.handle(call)

    async def answer(self, method: str, target: str, body: Any = None, content_type: str = "") -> ApiResponse:
        """The response to a request; raises ApiError if the server rejects it."""
        answer = await self.handle(method, target, body, content_type)
        assert isinstance(answer, ApiResponse)
        return answer

    async def ask(self, method: str, target: str, body: Any = None, content_type: str = "") -> Any:
        """The decoded document of the response."""
        return json.loads((await self.answer(method, target, body, content_type)).text)

    async def refused(self, method: str, target: str, body: Any = None, content_type: str = "") -> tuple[int, str]:
        """Code and message of the error; the server must reject the request."""
        try:
            answer = await self.ask(method, target, body, content_type)
        except ApiError as error:
            return error.code, error.message
        raise AssertionError(f"not refused: {answer}")

    async def watch(self, target: str, *, seconds: float = 5) -> list[SerializedEvent]:
        """The events of a watch, which must end within `seconds`."""
        stream = await self.handle("GET", target)
        assert isinstance(stream, WatchStream)
        events: list[SerializedEvent] = []
        async with asyncio.timeout(seconds):
            async for batch in stream.batches:
                events += batch
        return events


def config_map(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {"k": "v"}}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "busybox:1"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}
