"""Large bodies are decoded in a thread, with the same result as small ones."""

import asyncio
import threading
from typing import Any

import pytest

from pykubelet.api.errors import BadRequest
from pykubelet.apiserver.fieldmanager import fieldmanager
from pykubelet.apiserver.registry import BUILT_IN_KINDS
from pykubelet.apiserver.request import ApiRequest
from pykubelet.apiserver.serializer.decoder import LARGE_BYTES, decode_in_thread
from verb_requests import APPLY, MERGE, STRATEGIC, USER, Asker

MAPS = "/api/v1/namespaces/default/configmaps"
CALL_OF = next(served for served in BUILT_IN_KINDS if served.resource.group_resource == "configmaps")


def call(size: int, content_type: str = "application/json") -> ApiRequest:
    return ApiRequest(
        user=USER,
        verb="create",
        served=CALL_OF,
        namespace="default",
        body=b"x" * size,
        content_type=content_type,
    )


def config_map(size: int, **more: Any) -> dict[str, Any]:
    metadata = {"name": "big"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": "x" * size}, **more}


async def test_only_a_large_body_is_read_in_a_thread() -> None:
    """Errors of the thread are raised unchanged."""
    assert await decode_in_thread(call(LARGE_BYTES), threading.get_ident) == threading.get_ident()
    assert await decode_in_thread(call(LARGE_BYTES + 1), threading.get_ident) != threading.get_ident()

    def refuse() -> None:
        raise BadRequest("no object")

    # A hundred values in YAML may be one alias.
    for content_type in ("application/yaml", APPLY):
        assert await decode_in_thread(call(1000, content_type), threading.get_ident) == threading.get_ident()
        assert await decode_in_thread(call(5000, content_type), threading.get_ident) != threading.get_ident()

    with pytest.raises(BadRequest, match="no object"):
        await decode_in_thread(call(LARGE_BYTES + 1), refuse)


async def test_others_are_served_while_a_large_body_is_read() -> None:
    """The read waits for an event that only the event loop can set."""
    passed = threading.Event()

    def read() -> bool:
        return passed.wait(10)

    async with asyncio.TaskGroup() as group:
        reading = group.create_task(decode_in_thread(call(LARGE_BYTES + 1), read))
        await asyncio.sleep(0)
        passed.set()
    assert reading.result()


@pytest.mark.parametrize("size", [10, 2 * LARGE_BYTES], ids=["small", "large"])
async def test_every_write_does_the_same_with_bodies_of_any_size(asker: Asker, size: int) -> None:
    """It covers create, update, patch, apply and delete, with warnings and refusals."""
    made = await asker.answer("POST", MAPS, config_map(size, unknown=1))
    assert tuple(made.warnings) == ('unknown field "unknown"',)
    await asker.ask("PUT", f"{MAPS}/big", config_map(size, immutable=False))
    for kind in (MERGE, STRATEGIC):
        patched = await asker.ask("PATCH", f"{MAPS}/big", {"data": {"text": "y" * size}}, kind)
        assert patched["data"]["text"] == "y" * size
    target = f"{MAPS}/big?fieldManager=me&force=true"
    applied = await asker.ask("PATCH", target, config_map(size), APPLY)
    assert applied["data"]["text"] == "x" * size
    assert (await asker.refused("PUT", f"{MAPS}/big", config_map(size, data=[])))[0] == 400
    assert (await asker.refused("POST", f"{MAPS}?fieldValidation=Strict", config_map(size, other=1)))[0] == 400
    await asker.ask("DELETE", f"{MAPS}/big", {"kind": "DeleteOptions", "apiVersion": "v1", "other": "x" * size})
    assert (await asker.refused("GET", f"{MAPS}/big"))[0] == 404


@pytest.mark.parametrize("size", [10, 2 * LARGE_BYTES], ids=["small", "large"])
async def test_field_owners_of_a_large_new_object_are_computed_in_a_thread(
    asker: Asker, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Those of a list of 50,000 ports take a second, during which others are served."""
    threads, record = list[int](), fieldmanager.record

    def recorded(*args: Any, **options: Any) -> Any:
        threads.append(threading.get_ident())
        return record(*args, **options)

    monkeypatch.setattr(fieldmanager, "record", recorded)
    await asker.ask("POST", MAPS, config_map(size))
    assert (threads == [threading.get_ident()]) == (size < LARGE_BYTES)
