"""Which UDP connections end when endpoints change."""

from pykubelet.podnetwork.conntrack import Flow
from pykubelet.proxy.conntrack import stale_flows
from pykubelet.proxy.topology import ProxyEndpoint

ONE, TWO = ("10.1.0.1", 5353), ("10.1.0.2", 5353)
SERVICE = ("10.96.0.10", 53)
ENDPOINTS = {ONE: ProxyEndpoint(), TWO: ProxyEndpoint(is_ready=False, is_serving=False)}


def test_connection_ends_unless_a_serving_endpoint_answers() -> None:
    """One whose endpoint is gone or does not serve ends, and one from before there were endpoints."""
    answers = {"serves": ONE, "does not serve": TWO, "gone": ("10.1.0.3", 5353), "never translated": SERVICE}
    flows = [Flow(SERVICE, target, name.encode()) for name, target in answers.items()]
    stale = [flow.identity.decode() for flow in stale_flows(flows, {SERVICE: ENDPOINTS})]
    assert stale == ["does not serve", "gone", "never translated"]


def test_connection_to_another_place_goes_on() -> None:
    other = Flow(("10.1.0.1", 53), ("10.1.0.1", 53), b"")
    assert stale_flows([other], {SERVICE: ENDPOINTS}) == []


def test_terminating_endpoint_keeps_its_connections() -> None:
    draining = {ONE: ProxyEndpoint(is_ready=False, is_terminating=True)}
    assert stale_flows([Flow(SERVICE, ONE, b"")], {SERVICE: draining}) == []
