"""Requests to simulated pods: answered by whoever would listen there."""

from pykubelet.runtime.http_door import HttpFailure
from pykubelet.runtime.http_get import HttpRequest
from pykubelet.runtime.sim.runtime import SimRuntime


class SimHttp:
    """Asks simulated pods; an HttpDoor."""

    def __init__(self, runtime: SimRuntime) -> None:
        self._runtime = runtime

    async def get(self, request: HttpRequest) -> int:
        is_healthy = self._runtime.health_at(request.host)
        if is_healthy is None:
            raise HttpFailure(f"cannot connect to {request.host_port}: connection refused")
        return 200 if is_healthy else 503
