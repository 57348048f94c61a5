"""Runs one probe of one container, and tells users of a failure.

A run that could not be carried out is repeated at once, twice; if it still cannot, it counts for nothing.

Upstream: pkg/kubelet/prober/prober.go, pkg/probe/exec/exec.go
"""

from pykubelet.agent.flow import ProbeVerdict
from pykubelet.agent.probes.finding import Finding, ProbeError, State
from pykubelet.agent.probes.http_probe import HttpDoor, probe_http
from pykubelet.agent.probes.results import runtime_id
from pykubelet.agent.probes.schedule import Subject
from pykubelet.agent.probes.sockets import SocketDoor, Sockets
from pykubelet.aio.log import get_logger
from pykubelet.api.durations import format_duration
from pykubelet.api.expansion import expand, values_of
from pykubelet.api.generated.core import Container, PodStatus, Probe
from pykubelet.api.pods import pod_label
from pykubelet.api.validation.field_errors import go_quote
from pykubelet.kube.recorder import WARNING, EventRecorder
from pykubelet.runtime.events import container_reference, pod_text
from pykubelet.runtime.http_get import container_port, http_request
from pykubelet.runtime.protocol import Commands, RuntimeFailure

log = get_logger(__name__)

TRIES = 3
OUTPUT_BYTES = 10 * 1024
"""So much of what a command prints is kept."""


class Prober:
    """Probes containers. Without `commands` the runtime cannot run any, and exec probes say so."""

    def __init__(
        self,
        *,
        commands: Commands | None,
        http: HttpDoor,
        recorder: EventRecorder,
        sockets: SocketDoor | None = None,
    ) -> None:
        self._commands, self._http, self._recorder = commands, http, recorder
        self._sockets = sockets or Sockets()

    async def probe(self, subject: Subject, status: PodStatus, container_id: str) -> ProbeVerdict | None:
        """What a container's probe found; None if it could not be carried out."""
        what = f"{subject.kind.capitalize()} probe"
        try:
            finding = await self._run_with_retries(subject, status, container_id)
        except ProbeError as error:
            self._tell(subject, "Unhealthy", f"{what} errored and resulted in {error.state} state: {error}")
            return None
        if finding.state == State.FAILURE:
            self._tell(subject, "Unhealthy", f"{what} failed: {finding.output}")
            return ProbeVerdict.FAILURE
        if finding.state == State.WARNING:
            self._tell(subject, "ProbeWarning", f"{what} warning: {finding.output}")
        return ProbeVerdict.SUCCESS

    async def close(self) -> None:
        """Let go of what is held for the next probe."""
        await self._http.close()

    async def _run_with_retries(self, subject: Subject, status: PodStatus, container_id: str) -> Finding:
        for _ in range(TRIES - 1):
            try:
                return await self._run(subject, status, container_id)
            except ProbeError as error:
                log.debug("probe not carried out", pod=pod_label(subject.pod), kind=subject.kind, error=error)
        return await self._run(subject, status, container_id)

    async def _run(self, subject: Subject, status: PodStatus, container_id: str) -> Finding:
        probe, container = subject.probe, subject.container
        timeout_seconds = max(probe.timeout_seconds, 1)
        try:
            if probe.exec is not None:
                return await self._run_command(container, probe, container_id)
            if probe.http_get is not None:
                request = http_request(probe.http_get, container, pod_ip=status.pod_ip, purpose="probe")
                return await probe_http(self._http, request, timeout_seconds)
            if probe.tcp_socket is not None:
                port = container_port(probe.tcp_socket.port, container)
                return await self._sockets.tcp(probe.tcp_socket.host or status.pod_ip, port, timeout_seconds)
        except ValueError as error:
            raise ProbeError(str(error)) from error
        if probe.grpc is not None:
            return await self._sockets.grpc(status.pod_ip, probe.grpc.port, probe.grpc.service or "", timeout_seconds)
        raise ProbeError(f"missing probe handler for {pod_text(subject.pod)}:{container.name}")

    async def _run_command(self, container: Container, probe: Probe, container_id: str) -> Finding:
        if self._commands is None:
            raise ProbeError("the runtime cannot run commands in containers")
        assert probe.exec is not None
        # Only what the pod says literally: a value from elsewhere counts as empty here.
        value_of = values_of({variable.name: variable.value for variable in container.env})
        command = tuple(expand(word, value_of) for word in probe.exec.command)
        timeout_seconds = max(probe.timeout_seconds, 1)
        try:
            outcome = await self._commands.run(
                runtime_id(container_id), command, timeout_seconds=timeout_seconds, limit_bytes=OUTPUT_BYTES
            )
        except TimeoutError:
            words = f"{go_quote(' '.join(command))} timed out after {format_duration(timeout_seconds)}"
            return Finding(State.FAILURE, f"command timed out: {words}")
        except RuntimeFailure as failure:
            raise ProbeError(failure.message) from failure
        output = outcome.output[:OUTPUT_BYTES].decode(errors="replace")
        return Finding(State.FAILURE if outcome.exit_code else State.SUCCESS, output)

    def _tell(self, subject: Subject, reason: str, message: str) -> None:
        self._recorder.event(container_reference(subject.pod, subject.container.name), WARNING, reason, message)
