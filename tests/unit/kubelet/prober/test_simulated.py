"""Probes of simulated pods are answered by the simulation."""

import pytest

from pykubelet.kubelet.prober.http_probe import HttpProbeError
from pykubelet.kubelet.prober.prober import SimulatedProbes
from pykubelet.kubelet.prober.tcp_probe import ProbeAttempt, ProbeState

REFUSED = "dial tcp 10.0.0.9:80: connect: connection refused"


@pytest.fixture
def doors() -> SimulatedProbes:
    health = {"10.0.0.1": True, "10.0.0.2": False}
    return SimulatedProbes(health.get)


@pytest.mark.parametrize(("host", "status"), [("10.0.0.1", 200), ("10.0.0.2", 503)])
async def test_http_answers_by_health(doors: SimulatedProbes, host: str, status: int) -> None:
    """A healthy pod answers 200, an unhealthy one 503."""
    assert (await doors.get(f"http://{host}:80/healthz", (), deadline=1)).status == status
    await doors.close()


async def test_unknown_address_refuses_connections(doors: SimulatedProbes) -> None:
    """The text is that of a refused connection."""
    with pytest.raises(HttpProbeError, match=REFUSED):
        await doors.get("http://10.0.0.9:80/", (), deadline=1)
    assert await doors.tcp("10.0.0.9", 80, 1) == ProbeAttempt(ProbeState.FAILURE, REFUSED)
    assert await doors.grpc("10.0.0.9", 80, "", 1) == ProbeAttempt(ProbeState.FAILURE, REFUSED)


async def test_unhealthy_pod_listens_but_does_not_serve(doors: SimulatedProbes) -> None:
    """TCP probes of an unhealthy pod succeed, gRPC probes fail."""
    assert await doors.tcp("10.0.0.2", 80, 1) == ProbeAttempt(ProbeState.SUCCESS)
    assert await doors.grpc("10.0.0.1", 80, "", 1) == ProbeAttempt(ProbeState.SUCCESS)
    assert (await doors.grpc("10.0.0.2", 80, "", 1)).state == ProbeState.FAILURE
