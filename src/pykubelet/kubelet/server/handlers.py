"""Handles requests to the kubelet: authenticates, authorizes, routes and answers them.

Upstream: pkg/kubelet/server/server.go, pkg/kubelet/kubelet_pods.go, pkg/kubelet/container/runtime.go
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.pods import is_static_pod
from pykubelet.api.serializer import Document, encode
from pykubelet.httpserver.healthz import Check, health_of_all, health_of_one
from pykubelet.httpserver.request import BodyTooLarge, BodyUnreadable, HttpRequest
from pykubelet.httpserver.response import NOT_FOUND, HttpError, HttpResponse, HttpStream, text_response
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.server.auth import KubeletAuth
from pykubelet.kubelet.server.container_logs import ContainerLogs
from pykubelet.kubelet.server.pod_commands import PodCommands
from pykubelet.kubelet.server.routes import KubeletEndpoint, KubeletRoute, KubeletTarget, pairs, read_target, route
from pykubelet.kubelet.server.streaming.negotiation import (
    Carrier,
    StreamProtocol,
    agree_on_command,
    agree_on_forward,
    offer_of,
)
from pykubelet.kubelet.server.streaming.session import CommandSession, ForwardSession
from pykubelet.kubelet.stats.metrics import MetricsCollector, metric_page
from pykubelet.kubelet.stats.provider import StatsProvider
from pykubelet.kubelet.stats.summary import running_containers
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.runtimes.protocol import Runtime, RuntimeFailure, RuntimePod

log = get_logger(__name__)


def health_page(check: str, query: Sequence[tuple[str, str]], checks: Mapping[str, Check]) -> HttpResponse:
    """The result of all health checks, or of the named one."""
    if check and check not in checks:
        return NOT_FOUND
    found = health_of_one(check, checks) if check else health_of_all("healthz", query, checks)
    return text_response(found.code, found.text)


def desired_pods(pods: Iterable[Pod], status_of: Callable[[str], PodStatus | None]) -> Document:
    """The pods of this node; static pods, which the API server may not know, with the kubelet's status."""
    return _pod_list([_with_status(pod, status_of) for pod in pods])


def running_pods(pods: Iterable[RuntimePod]) -> Document:
    """The pods with running containers, as the runtime reports them."""
    return _pod_list(
        [
            {
                "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "creationTimestamp": None},
                "spec": {"containers": [{"name": one.name, "image": one.image, "resources": {}} for one in running]},
                "status": {},
            }
            for pod in pods
            if (running := running_containers(pod))
        ]
    )


def _pod_list(items: list[Pod] | list[Document]) -> Document:
    return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}


def _with_status(pod: Pod, status_of: Callable[[str], PodStatus | None]) -> Pod:
    status = status_of(pod.metadata.uid) if is_static_pod(pod) else None
    return pod if status is None else replace(pod, status=status)


class StreamUpgrade(NamedTuple):
    """An upgraded connection: the session to run, and its protocol."""

    session: CommandSession | ForwardSession
    agreement: StreamProtocol


Outcome = HttpResponse | HttpStream | StreamUpgrade


class KubeletPages:
    """The endpoints with complete responses."""

    def __init__(
        self,
        *,
        pods: PodManager,
        statuses: StatusManager,
        runtime: Runtime,
        stats: StatsProvider,
        checks: Mapping[str, Check],
        explain: Callable[[str, str], Document | None],
        collectors: Iterable[MetricsCollector] = (),
        probe_collectors: Iterable[MetricsCollector] = (),
    ) -> None:
        """`checks` are those of /healthz; collectors provide /metrics and /metrics/probes."""
        self._pods, self._statuses, self._runtime, self._stats = pods, statuses, runtime, stats
        self._explain = explain
        self._checks: dict[str, Check] = {"ping": lambda: "", "log": lambda: "", **checks}
        self._collectors, self._probe_collectors = tuple(collectors), tuple(probe_collectors)

    async def answer(self, found: KubeletRoute, target: KubeletTarget) -> HttpResponse:
        """The response of an endpoint; raises HttpError or RuntimeFailure."""
        match found.page:
            case KubeletEndpoint.HEALTH:
                return health_page(found.check, target.query, self._checks)
            case KubeletEndpoint.PODS:
                return HttpResponse(200, encode(desired_pods(self._pods.pods(), self._statuses.pod_status)))
            case KubeletEndpoint.RUNNING_PODS:
                return HttpResponse(200, encode(running_pods(await self._runtime.pods())))
            case KubeletEndpoint.WHY:
                return self._why(found)
            case KubeletEndpoint.SUMMARY:
                return await self._stats.summary_page()
            case KubeletEndpoint.RESOURCE_METRICS:
                return await self._stats.resource_page()
            case KubeletEndpoint.CADVISOR_METRICS:
                return await self._stats.cadvisor_page()
            case KubeletEndpoint.PROBE_METRICS:
                return metric_page(self._probe_collectors, with_process=True)
            case _:
                return await self._stats.own_page(self._collectors)

    def _why(self, found: KubeletRoute) -> HttpResponse:
        explanation = self._explain(found.namespace, found.pod)
        if explanation is None:
            raise HttpError(404, f"this node knows no pod {found.namespace}/{found.pod}\n")
        return HttpResponse(200, encode(explanation))


class KubeletHandlers:
    """Answers requests. Without `debugging`, logs, exec, attach and port-forward are disabled."""

    def __init__(
        self,
        *,
        auth: KubeletAuth,
        pages: KubeletPages,
        logs: ContainerLogs,
        commands: PodCommands,
        debugging: bool = True,
    ) -> None:
        self._auth, self._pages, self._logs, self._commands = auth, pages, logs, commands
        self._debugging = debugging

    async def answer(self, request: HttpRequest) -> Outcome:
        """The response; errors become responses too."""
        try:
            target = read_target(request.target)
            await self._auth.check(
                request.method, target.path, request.headers.get("Authorization", ""), request.certificate
            )
            request.authenticated()
            found = route(request.method, target.path, debugging=self._debugging)
            return await self._outcome(request, target, found)
        except HttpError as refused:
            return refused.reply
        except BodyTooLarge:
            return text_response(413, "the body of the request is too large")
        except BodyUnreadable:
            return text_response(400, "the body of the request could not be read")
        except RuntimeFailure as error:
            return text_response(500, error.message)
        except Exception as error:  # noqa: BLE001  whatever it is, the client gets an answer and the node goes on
            log.error("request failed", error=error, method=request.method, target=request.target[:200])
            return text_response(500, "Internal Server Error: see the node's log")

    async def _outcome(self, request: HttpRequest, target: KubeletTarget, found: KubeletRoute) -> Outcome:
        query = target.query
        match found.page:
            case KubeletEndpoint.LOGS:
                return await self._logs.open(found, query)
            case KubeletEndpoint.EXEC:
                return StreamUpgrade(self._commands.exec(found, query), agree_on_command(offer_of(request.headers)))
            case KubeletEndpoint.ATTACH:
                return StreamUpgrade(self._commands.attach(found, query), agree_on_command(offer_of(request.headers)))
            case KubeletEndpoint.PORT_FORWARD:
                agreement = agree_on_forward(offer_of(request.headers))
                has_channels = agreement.carrier is Carrier.CHANNELS
                return StreamUpgrade(self._commands.forward(found, query, is_web_socket=has_channels), agreement)
            case KubeletEndpoint.RUN:
                form = pairs((await request.read_body()).decode(errors="replace")) if _is_form(request) else ()
                return await self._commands.run(found, (*form, *query))
            case _:
                return await self._pages.answer(found, target)


def _is_form(request: HttpRequest) -> bool:
    content_type = request.headers.get("Content-Type", "").partition(";")[0]
    return content_type.strip().lower() == "application/x-www-form-urlencoded"
