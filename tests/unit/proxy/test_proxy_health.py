"""The answers of the proxy's own health checks."""

import json
from typing import Any

import pytest
from msgspec.structs import replace
from multidict import CIMultiDict

from pykubelet.api.generated.core import Node, NodeSpec, Taint
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.httpserver.request import HttpRequest
from pykubelet.httpserver.response import HttpResponse
from pykubelet.proxy.healthcheck.proxy_health import ProxyHealth
from pykubelet.testing.virtual_time import ManualClock

NODE = Node(metadata=ObjectMeta(name="node-1"))
LEAVING = replace(NODE, spec=NodeSpec(taints=(Taint(key="ToBeDeletedByClusterAutoscaler", effect="NoSchedule"),)))
DELETED = replace(NODE, metadata=ObjectMeta(name="node-1", deletion_timestamp="2026-01-01T00:00:00Z"))


async def ask(health: ProxyHealth, path: str) -> tuple[int, dict[str, Any]]:
    async def no_body() -> bytes:
        return b""

    answer = await health.handle(HttpRequest("GET", path, CIMultiDict(), None, "127.0.0.1", no_body))
    assert isinstance(answer, HttpResponse)
    return answer.code, json.loads(answer.body) if answer.code != 404 else {}


async def test_proxy_that_writes_changes_in_time_is_healthy() -> None:
    """A change may wait for a minute; afterwards the time of the last success shows since when it hangs."""
    clock = ManualClock()
    health, start = ProxyHealth(clock), clock.now().isoformat()
    clock.advance(1000)
    code, body = await ask(health, "/healthz?verbose")
    assert (code, body["nodeEligible"], body["lastUpdated"]) == (200, True, body["currentTime"])
    health.queued()
    clock.advance(59)
    health.queued()
    assert (await ask(health, "/livez"))[0] == 200
    clock.advance(1)
    for path in ("/healthz", "/livez"):
        code, body = await ask(health, path)
        assert (code, body["lastUpdated"][:19]) == (503, start[:19])
    health.updated()
    assert (await ask(health, "/healthz"))[0] == 200
    assert (await ask(health, "/"))[0] == 404


@pytest.mark.parametrize("node", [LEAVING, DELETED, None], ids=["tainted", "terminating", "deleted"])
async def test_node_that_leaves_fails_only_healthz(node: Node | None) -> None:
    """Load balancers stop using it, but a restart of the proxy would not help."""
    health = ProxyHealth(ManualClock())
    health.put_node(node)
    code, body = await ask(health, "/healthz")
    assert (code, body["nodeEligible"]) == (503, False)
    code, body = await ask(health, "/livez")
    assert code == 200
    assert "nodeEligible" not in body
    health.put_node(NODE)
    assert (await ask(health, "/healthz"))[0] == 200
