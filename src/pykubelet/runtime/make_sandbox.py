"""Makes the sandbox of a pod and finds out its addresses.

Upstream: createPodSandbox in pkg/kubelet/kuberuntime/kuberuntime_sandbox.go, and step 4 of SyncPod
"""

from typing import NoReturn, Protocol

from pykubelet.api.generated.core import Pod
from pykubelet.api.keys import PodUid
from pykubelet.runtime.events import WARNING, Events, pod_reference
from pykubelet.runtime.log_directory import LogDirectory
from pykubelet.runtime.log_paths import pod_names
from pykubelet.runtime.protocol import Runtime, RuntimeFailure, Sandbox, SandboxRequest
from pykubelet.runtime.start_container import PodSettings


class Handlers(Protocol):
    """Knows the ways of running containers."""

    async def handler(self, class_name: str) -> str:
        """The one that a runtime class stands for; RuntimeFailure if there is no such class."""


class SandboxMaker:
    """Makes sandboxes."""

    def __init__(
        self, *, runtime: Runtime, settings: PodSettings, handlers: Handlers, logs: LogDirectory, events: Events
    ) -> None:
        self._runtime, self._settings, self._handlers = runtime, settings, handlers
        self._logs, self._events = logs, events

    async def make(self, pod: Pod, attempt: int) -> Sandbox:
        """A new sandbox; RuntimeFailure, told as an event, if it cannot be had."""
        try:
            request = SandboxRequest(
                pod=pod,
                attempt=attempt,
                hostname=self._settings.hostname(pod),
                log_directory=self._logs.of_pod(pod_names(pod)),
                handler=await self._handlers.handler(class_name) if (class_name := pod.spec.runtime_class_name) else "",
            )
            sandbox_id = await self._runtime.create_sandbox(request)
        except RuntimeFailure as failure:
            self._fail(pod, "FailedCreatePodSandBox", f"Failed to create pod sandbox: {failure.message}", failure)
        try:
            return await self._sandbox(pod, sandbox_id)
        except RuntimeFailure as failure:
            told = f"Unable to get pod sandbox status: {failure.message}"
            self._fail(pod, "FailedPodSandBoxStatus", told, failure)

    async def _sandbox(self, pod: Pod, sandbox_id: str) -> Sandbox:
        observed = await self._runtime.inspect(PodUid(pod.metadata.uid))
        for sandbox in observed.sandboxes if observed is not None else ():
            if sandbox.id == sandbox_id:
                return sandbox
        raise RuntimeFailure("the sandbox that was made is not there")

    def _fail(self, pod: Pod, reason: str, message: str, failure: RuntimeFailure) -> NoReturn:
        self._events.event(pod_reference(pod), WARNING, reason, message)
        raise failure
