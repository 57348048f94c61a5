"""From an HTTP request to what is answered: the one order in which everything is checked and done.

    authenticate and authorize -> route -> page, log, or session

Nothing here knows the HTTP library: `app.py` makes an `Asked` of its request and sends the `Outcome`.

Upstream: pkg/kubelet/server/server.go
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

from pykubelet.aio.log import get_logger
from pykubelet.api.health_checks import Check
from pykubelet.api.wire import encode
from pykubelet.nodeapi.access.gate import Gate
from pykubelet.nodeapi.collaborators import Explanations, Pods, RunningPods, Statuses
from pykubelet.nodeapi.commands import PodCommands
from pykubelet.nodeapi.health import health_page
from pykubelet.nodeapi.logs import LogOutput, Logs
from pykubelet.nodeapi.pod_lists import running_pods, wanted_pods
from pykubelet.nodeapi.replies import Refused, Reply, text_reply
from pykubelet.nodeapi.routes import Page, Route, route
from pykubelet.nodeapi.stats.metric_pages import Collector, metric_page
from pykubelet.nodeapi.stats.station import Stats
from pykubelet.nodeapi.streaming.negotiate import Agreement, Carrier, Offer, agree_on_command, agree_on_forward
from pykubelet.nodeapi.streaming.sessions import CommandSession, ForwardSession
from pykubelet.nodeapi.targets import Target, pairs, read_target
from pykubelet.runtime.protocol import RuntimeFailure

log = get_logger(__name__)


class Asked(NamedTuple):
    """An HTTP request; its body is read only by who needs it."""

    method: str
    target: str
    authorization: str
    certificate: bytes | None
    """The client's, in DER, if TLS has checked one."""
    offer: Offer
    is_form: bool
    read_body: Callable[[], Awaitable[bytes]]


class Upgrade(NamedTuple):
    """A connection that goes on: what it is for, and what will be spoken over it."""

    session: CommandSession | ForwardSession
    agreement: Agreement


Outcome = Reply | LogOutput | Upgrade


class Pages:
    """The answers that are complete before they are sent."""

    def __init__(
        self,
        *,
        pods: Pods,
        statuses: Statuses,
        runtime: RunningPods,
        stats: Stats,
        checks: Mapping[str, Check],
        explanations: Explanations,
        collectors: Iterable[Collector] = (),
        probe_collectors: Iterable[Collector] = (),
    ) -> None:
        """`checks` are those of /healthz; collectors tell something on /metrics and /metrics/probes."""
        self._pods, self._statuses, self._runtime, self._stats = pods, statuses, runtime, stats
        self._explanations = explanations
        self._checks: dict[str, Check] = {"ping": lambda: "", "log": lambda: "", **checks}
        self._collectors, self._probe_collectors = tuple(collectors), tuple(probe_collectors)

    async def answer(self, found: Route, target: Target) -> Reply:
        """A page; raises Refused or RuntimeFailure."""
        match found.page:
            case Page.HEALTH:
                return health_page(found.check, target.query, self._checks)
            case Page.PODS:
                return Reply(200, encode(wanted_pods(self._pods.pods(), self._statuses.pod_status)))
            case Page.RUNNING_PODS:
                return Reply(200, encode(running_pods(await self._runtime.pods())))
            case Page.WHY:
                return self._why(found)
            case Page.SUMMARY:
                return await self._stats.summary_page()
            case Page.RESOURCE_METRICS:
                return await self._stats.resource_page()
            case Page.CADVISOR_METRICS:
                return await self._stats.cadvisor_page()
            case Page.PROBE_METRICS:
                return metric_page(self._probe_collectors, with_process=True)
            case _:
                return await self._stats.own_page(self._collectors)

    def _why(self, found: Route) -> Reply:
        explanation = self._explanations.explain(found.namespace, found.pod)
        if explanation is None:
            raise Refused(404, f"this node knows no pod {found.namespace}/{found.pod}\n")
        return Reply(200, encode(explanation))


class Front:
    """Answers requests. With `debugging` off, nobody can look into pods or do something in them."""

    def __init__(self, *, gate: Gate, pages: Pages, logs: Logs, commands: PodCommands, debugging: bool = True) -> None:
        self._gate, self._pages, self._logs, self._commands = gate, pages, logs, commands
        self._debugging = debugging

    async def answer(self, asked: Asked) -> Outcome:
        """What to send; whatever goes wrong becomes a Reply."""
        try:
            target = read_target(asked.target)
            await self._gate.check(asked.method, target.path, asked.authorization, asked.certificate)
            found = route(asked.method, target.path, debugging=self._debugging)
            return await self._outcome(asked, target, found)
        except Refused as refused:
            return refused.reply
        except RuntimeFailure as error:
            return text_reply(500, error.message)
        except Exception as error:  # noqa: BLE001  whatever it is, the client gets an answer and the node goes on
            log.error("request failed", error=error, method=asked.method, target=asked.target[:200])
            return text_reply(500, "Internal Server Error: see the node's log")

    async def _outcome(self, asked: Asked, target: Target, found: Route) -> Outcome:
        query = target.query
        match found.page:
            case Page.LOGS:
                return await self._logs.open(found, query)
            case Page.EXEC:
                return Upgrade(self._commands.exec(found, query), agree_on_command(asked.offer))
            case Page.ATTACH:
                return Upgrade(self._commands.attach(found, query), agree_on_command(asked.offer))
            case Page.PORT_FORWARD:
                agreement = agree_on_forward(asked.offer)
                has_channels = agreement.carrier is Carrier.CHANNELS
                return Upgrade(self._commands.forward(found, query, is_web_socket=has_channels), agreement)
            case Page.RUN:
                form = pairs((await asked.read_body()).decode(errors="replace")) if asked.is_form else ()
                return await self._commands.run(found, (*form, *query))
            case _:
                return await self._pages.answer(found, target)
