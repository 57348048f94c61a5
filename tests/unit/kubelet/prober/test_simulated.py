"""Probes of simulated pods: answers come from the simulation."""

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
    """200 or 503."""
    assert (await doors.get(f"http://{host}:80/healthz", (), deadline=1)).status == status
    await doors.close()


async def test_nobody_answers_where_nobody_is(doors: SimulatedProbes) -> None:
    """The words are those of a refused connection."""
    with pytest.raises(HttpProbeError, match=REFUSED):
        await doors.get("http://10.0.0.9:80/", (), deadline=1)
    assert await doors.tcp("10.0.0.9", 80, 1) == ProbeAttempt(ProbeState.FAILURE, REFUSED)
    assert await doors.grpc("10.0.0.9", 80, "", 1) == ProbeAttempt(ProbeState.FAILURE, REFUSED)


async def test_sockets_tell_listening_from_serving(doors: SimulatedProbes) -> None:
    """Whoever is unwell still listens, but does not say that it serves."""
    assert await doors.tcp("10.0.0.2", 80, 1) == ProbeAttempt(ProbeState.SUCCESS)
    assert await doors.grpc("10.0.0.1", 80, "", 1) == ProbeAttempt(ProbeState.SUCCESS)
    assert (await doors.grpc("10.0.0.2", 80, "", 1)).state == ProbeState.FAILURE
