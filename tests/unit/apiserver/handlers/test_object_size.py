"""Objects that would take long to default and validate are rejected before that."""

from typing import Any

import pytest

from pykubelet.apiserver.serializer.decoder import LARGE_BYTES
from pykubelet.apiserver.serializer.object_size import MAX_INNER_OBJECTS
from verb_requests import APPLY, JSON_PATCH, MERGE, Asker, config_map, pod

_PODS = "/api/v1/namespaces/default/pods"
_MAPS = "/api/v1/namespaces/default/configmaps"
_MANY: list[dict[str, Any]] = [{}] * (MAX_INNER_OBJECTS + 1)
_TOO_MANY = (413, "Request entity too large: an object has at most 100000 objects within")


@pytest.fixture(name="stored")
async def _stored(asker: Asker) -> Asker:
    await asker.ask("POST", _PODS, pod("web"))
    return asker


_WRITES: dict[str, tuple[str, str, Any, str]] = {
    "create": ("POST", _PODS, pod("a", containers=_MANY), ""),
    "update": ("PUT", f"{_PODS}/web", pod("web", containers=_MANY), ""),
    "merge patch": ("PATCH", f"{_PODS}/web", {"spec": {"volumes": _MANY}}, MERGE),
    "apply": ("PATCH", f"{_PODS}/web?fieldManager=a", pod("web", tolerations=_MANY), APPLY),
    "copies": (
        "PATCH",
        f"{_PODS}/web",
        [
            {"op": "add", "path": "/spec/tolerations", "value": [{}] * 1000},
            {"op": "add", "path": "/metadata/x", "value": {}},
            *({"op": "copy", "from": "/spec/tolerations", "path": f"/metadata/x/{n}"} for n in range(200)),
        ],
        JSON_PATCH,
    ),
}


@pytest.mark.parametrize("name", _WRITES)
async def test_object_of_too_many_parts_is_rejected(stored: Asker, name: str) -> None:
    """Each write is rejected before the defaults, which make a million empty objects fifty times as large."""
    assert await stored.refused(*_WRITES[name]) == _TOO_MANY


async def test_object_of_many_parts_is_accepted(asker: Asker) -> None:
    """A large object is not rejected for its size alone."""
    data = {f"k{number}": "{}" * 10 for number in range(LARGE_BYTES // 10)}
    assert len((await asker.ask("POST", _MAPS, {**config_map("big"), "data": data}))["data"]) == len(data)


async def test_object_that_its_defaults_make_too_large_is_rejected(asker: Asker) -> None:
    """Its text is measured again when they are set."""
    code, message = await asker.refused("POST", _PODS, pod("a", containers=[{}] * 60_000))
    assert (code, message) == (413, "Request entity too large: an object has at most 3145728 bytes of JSON")
