"""Runs lifecycle hooks of containers: exec, httpGet and sleep.

A hook ends normally or with HookFailure. Any HTTP status counts as success.

Upstream: pkg/kubelet/lifecycle/handlers.go
"""

import asyncio

from pykubelet.aio.log import get_logger
from pykubelet.api.field_errors import go_quote
from pykubelet.api.generated.core import ExecAction, HTTPGetAction, LifecycleHandler, Pod
from pykubelet.api.pods import AnyContainer, PodUid, pod_label
from pykubelet.client.recorder import WARNING, EventRecorder, format_pod, reference_to
from pykubelet.httpserver.http_client import HttpGetter, as_plain_http, http_get_request
from pykubelet.httpserver.http_failure import HttpFailure
from pykubelet.runtimes.protocol import Commands, Runtime, RuntimeFailure

log = get_logger(__name__)

# A message quotes no more output than this.
_OUTPUT_BYTES = 10 * 1024


class HookFailure(Exception):
    """A failed hook. The message may quote output of the container, so events must not contain it."""


class HandlerRunner:
    """Runs lifecycle hooks. Exec hooks fail if the runtime cannot run commands (`commands` is None)."""

    def __init__(self, *, commands: Commands | None, http: HttpGetter, runtime: Runtime, events: EventRecorder) -> None:
        self._commands, self._http, self._runtime, self._events = commands, http, runtime, events

    async def run(self, container_id: str, pod: Pod, container: AnyContainer, hook: LifecycleHandler) -> None:
        """Run a hook to its end; HookFailure if it fails."""
        where = f"for Container {go_quote(container.name)} in Pod {go_quote(format_pod(pod))} failed - error:"
        if hook.exec is not None:
            await self._run_command(container_id, hook.exec, where)
        elif hook.http_get is not None:
            try:
                await self._request(pod, container, hook.http_get)
            except (HttpFailure, RuntimeFailure, ValueError) as error:
                raise HookFailure(f"HTTP lifecycle hook ({hook.http_get.path}) {where} {error}") from error
        elif hook.sleep is not None:
            await asyncio.sleep(hook.sleep.seconds)
        else:
            raise HookFailure("Cannot run handler: invalid handler: it has no action")

    async def _run_command(self, container_id: str, action: ExecAction, where: str) -> None:
        failed = f"Exec lifecycle hook ([{' '.join(action.command)}]) {where}"
        if self._commands is None:
            raise HookFailure(f'{failed} the runtime runs no commands, message: ""')
        try:
            outcome = await self._commands.run(
                container_id, action.command, timeout_seconds=None, limit_bytes=_OUTPUT_BYTES
            )
        except RuntimeFailure as error:
            raise HookFailure(f'{failed} {error.message}, message: ""') from error
        if outcome.exit_code != 0:
            output, errors = (data.decode(errors="replace") for data in (outcome.output, outcome.errors))
            ended = f"command '{' '.join(action.command)}' exited with {outcome.exit_code}: {errors}"
            raise HookFailure(f"{failed} {ended}, message: {go_quote(output)}")

    async def _request(self, pod: Pod, container: AnyContainer, action: HTTPGetAction) -> None:
        pod_ip = "" if action.host else await self._ip_of(pod)
        request = http_get_request(action, container, pod_ip=pod_ip, purpose="lifecycle")
        try:
            await self._http.get(request)
        except HttpFailure as failure:
            if request.scheme != "https" or not failure.is_plain_http:
                raise
            log.info("https hook got an http answer, retrying with http", pod=pod_label(pod), host=request.host_port)
            try:
                await self._http.get(as_plain_http(request))
            except HttpFailure as second:
                # The user asked for https, so the error of that request counts.
                raise failure from second
            message = (
                f"request to HTTPS lifecycle hook {request.host_port} got HTTP response, retry with HTTP succeeded"
            )
            self._events.event(reference_to(pod), WARNING, "LifecycleHTTPFallback", message)

    async def _ip_of(self, pod: Pod) -> str:
        observed = await self._runtime.inspect(PodUid(pod.metadata.uid))
        ips = observed.sandboxes[0].ips if observed and observed.sandboxes else ()
        if not ips:
            raise ValueError("failed to find networking container: the pod has no IP")
        return ips[0]
