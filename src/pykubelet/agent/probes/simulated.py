"""Probes of containers that only pretend: nothing goes to the network, the simulation answers."""

from collections.abc import Callable
from urllib.parse import urlsplit

from pykubelet.agent.probes.finding import Finding, State
from pykubelet.agent.probes.http_answer import HttpAnswer, NoAnswer
from pykubelet.runtime.go_words import host_port
from pykubelet.runtime.http_get import Headers

_REFUSED = "connect: connection refused"


class SimulatedDoors:
    """Both doors of probes; `health_at` says of an address whether all is well there, None if nobody listens."""

    def __init__(self, health_at: Callable[[str], bool | None]) -> None:
        self._health_at = health_at

    async def get(self, url: str, headers: Headers, *, deadline: float) -> HttpAnswer:  # noqa: ARG002
        parts = urlsplit(url)
        is_healthy = self._health_at(parts.hostname or "")
        if is_healthy is None:
            raise NoAnswer(f"dial tcp {parts.netloc}: {_REFUSED}")
        return HttpAnswer(200, None, b"ok") if is_healthy else HttpAnswer(503, None, b"unhealthy")

    async def close(self) -> None:
        """Nothing is held."""

    async def tcp(self, host: str, port: int, timeout_seconds: int) -> Finding:  # noqa: ARG002
        # Whoever is unwell still listens.
        is_open = self._health_at(host) is not None
        return Finding(State.SUCCESS) if is_open else _refused(host, port)

    async def grpc(self, host: str, port: int, service: str, timeout_seconds: int) -> Finding:  # noqa: ARG002
        is_healthy = self._health_at(host)
        if is_healthy is None:
            return _refused(host, port)
        if is_healthy:
            return Finding(State.SUCCESS)
        return Finding(State.FAILURE, 'service unhealthy (responded with "NOT_SERVING")')


def _refused(host: str, port: int) -> Finding:
    return Finding(State.FAILURE, f"dial tcp {host_port(host, port)}: {_REFUSED}")
