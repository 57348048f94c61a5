"""The door of probes to plain sockets: a connection, or a question by gRPC."""

from typing import Protocol

from pykubelet.agent.probes.dial import probe_tcp
from pykubelet.agent.probes.finding import Finding
from pykubelet.agent.probes.grpc_probe import probe_grpc


class SocketDoor(Protocol):
    """Asks a container without HTTP; what goes wrong is a finding too."""

    async def tcp(self, host: str, port: int, timeout_seconds: int) -> Finding:
        """Whether a connection can be opened."""

    async def grpc(self, host: str, port: int, service: str, timeout_seconds: int) -> Finding:
        """Whether a service says that it serves."""


class Sockets:
    """Those of the machine."""

    async def tcp(self, host: str, port: int, timeout_seconds: int) -> Finding:
        return await probe_tcp(host, port, timeout_seconds)

    async def grpc(self, host: str, port: int, service: str, timeout_seconds: int) -> Finding:
        return await probe_grpc(host, port, service, timeout_seconds)
