"""EndpointSlices as changes of single endpoints."""

from typing import Any

import pytest

from proxy_rig import as_slice, endpoint, endpoint_slice
from pykubelet.api.serializer import Document
from pykubelet.proxy.endpointslicecache import EndpointChange, EndpointSliceCache
from pykubelet.proxy.serviceport import IPFamily, ServicePortName
from pykubelet.proxy.topology import ProxyEndpoint

WEB = ServicePortName("shop", "web", "", "tcp")
ONE, TWO = "10.1.0.1", "10.1.0.2"


def cache() -> EndpointSliceCache:
    return EndpointSliceCache("node-1", zone="zone-a")


def change(address: str, one: ProxyEndpoint | None) -> EndpointChange:
    return EndpointChange(IPFamily.IPV4, WEB, (address, 8080), one)


HERE = ProxyEndpoint(is_local=True)


def test_only_changed_endpoints_are_reported() -> None:
    slices = cache()
    assert slices.put(as_slice(endpoint_slice(ONE, TWO))) == [change(ONE, HERE), change(TWO, HERE)]
    assert slices.put(as_slice(endpoint_slice(ONE, TWO))) == []
    moved = as_slice(endpoint_slice(ONE, endpoint(TWO, node="node-2")))
    assert slices.put(moved) == [change(TWO, ProxyEndpoint(is_local=False))]
    assert slices.put(as_slice(endpoint_slice(ONE))) == [change(TWO, None)]
    assert slices.remove(as_slice(endpoint_slice(ONE))) == [change(ONE, None)]


@pytest.mark.parametrize(
    ("fields", "seen"),
    [
        ({}, HERE),
        ({"conditions": {"ready": False, "serving": True, "terminating": True}}, HERE._replace(is_ready=False, is_terminating=True)),
        ({"conditions": {"ready": False, "serving": False}}, HERE._replace(is_ready=False, is_serving=False)),
        ({"nodeName": None}, ProxyEndpoint()),
        ({"hints": {"forZones": [{"name": "zone-a"}, {"name": "zone-b"}]}}, HERE._replace(is_for_zone=True)),
        ({"hints": {"forZones": [{"name": "zone-b"}]}}, HERE._replace(is_for_zone=False)),
        ({"hints": {"forNodes": [{"name": "node-1"}]}}, HERE._replace(is_for_node=True)),
    ],
)  # fmt: skip
def test_conditions_and_hints_are_read(fields: Document, seen: ProxyEndpoint) -> None:
    """What a slice does not say is ready, serving, and not terminating."""
    assert cache().put(as_slice(endpoint_slice({**endpoint(ONE), **fields}))) == [change(ONE, seen)]


def test_endpoint_that_moves_between_slices_stays() -> None:
    slices = cache()
    slices.put(as_slice(endpoint_slice(ONE)))
    assert slices.put(as_slice(endpoint_slice(ONE, name="web-2"))) == []
    assert slices.remove(as_slice(endpoint_slice(ONE))) == []
    assert slices.remove(as_slice(endpoint_slice(ONE, name="web-2"))) == [change(ONE, None)]


def test_reused_address_belongs_to_the_endpoint_that_does_not_terminate() -> None:
    """In one slice or in two, in any order."""
    leaving = endpoint(ONE, ready=False, serving=True, terminating=True)
    for order in ((leaving, endpoint(ONE)), (endpoint(ONE), leaving)):
        assert cache().put(as_slice(endpoint_slice(*order))) == [change(ONE, HERE)]
        slices = cache()
        for number, each in enumerate(order):
            slices.put(as_slice(endpoint_slice(each, name=f"web-{number}")))
        assert slices.remove(as_slice(endpoint_slice(ONE, name="web-9"))) == []
        last = slices.put(as_slice(endpoint_slice(name=f"web-{order.index(leaving)}")))
        assert last == []


@pytest.mark.parametrize(
    "fields",
    [
        {"addressType": "FQDN"},
        {"addressType": "IPv6"},
        {"metadata": {"name": "web-1", "namespace": "shop"}},
        {"ports": [{"name": "", "protocol": "TCP"}]},
        {"endpoints": [{"addresses": ["10.1.0.1 } add rule ip x y accept"]}]},
        {"endpoints": [{"addresses": []}]},
    ],
    ids=str,
)
def test_what_is_no_endpoint_is_skipped(fields: dict[str, Any]) -> None:
    """Above all what would be another nft command."""
    assert cache().put(as_slice(endpoint_slice(ONE, **fields))) == []
