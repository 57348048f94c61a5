"""The kubelet's HTTP API on loopback over TLS; its commands are real processes."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import trustme
from multidict import CIMultiDict

from process_streams import ProcessStreams
from pykubelet.aio.clock import SystemClock
from pykubelet.api.generated.core import (
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    Pod,
    PodStatus,
)
from pykubelet.api.pods import PodUid
from pykubelet.client.recorder import LogRecorder
from pykubelet.client.transport import PemSource
from pykubelet.httpserver.healthz import Check
from pykubelet.httpserver.request import HttpRequest
from pykubelet.kubelet.config.config import SourceProblemReporter
from pykubelet.kubelet.explain.explainer import PodExplainer
from pykubelet.kubelet.explain.trail import PodTrails
from pykubelet.kubelet.logs.log_directory import LogDirectory, pod_names
from pykubelet.kubelet.nodestatus.node_status import node_reference
from pykubelet.kubelet.pleg.pleg import CachedStatus, PodCache
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.server.auth import AccessReviewer, CertificateOnlyAccess, KubeletAuth, KubeletUser, ReviewFailed
from pykubelet.kubelet.server.certificate import ServingFiles, self_signed_certificate, server_context
from pykubelet.kubelet.server.container_logs import ContainerLogs
from pykubelet.kubelet.server.handlers import KubeletHandlers, KubeletPages
from pykubelet.kubelet.server.pod_commands import PodCommands
from pykubelet.kubelet.server.server import KubeletServer, ServerRequestMetrics
from pykubelet.kubelet.server.streaming.negotiation import UpgradeOffer
from pykubelet.kubelet.stats.machine_usage import MachineReader
from pykubelet.kubelet.stats.provider import StatsProvider
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.runtimes import protocol
from pykubelet.runtimes.protocol import ContainerResourceUsage, RuntimeContainer, RuntimePod, Sandbox
from pykubelet.testing.build import container, pod

NODE = "node-1"
STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class NothingRuns:
    """PodDeletionSafety of a node whose pods have no running containers and hold no resources."""

    def could_have_running_containers(self, uid: PodUid) -> bool:
        return False

    def pod_resources_are_reclaimed(self, pod: Pod, status: PodStatus) -> bool:
        return True


class ListedPods:
    """The listing and the measurements of a runtime, as the test sets them."""

    def __init__(self) -> None:
        self.listed: dict[PodUid, RuntimePod] = {}
        self.measured: dict[str, ContainerResourceUsage] = {}
        self.failure: protocol.RuntimeFailure | None = None

    async def pods(self) -> list[RuntimePod]:
        if self.failure is not None:
            raise self.failure
        return list(self.listed.values())

    async def usages(self) -> Mapping[str, ContainerResourceUsage]:
        return self.measured


class NodeRig:
    """A node whose pods are reported as running; the test decides what they write and do."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, SystemClock()
        self.pods, self.cache, self.streams = PodManager(), PodCache(), ProcessStreams()
        self.runtime = ListedPods()
        self.statuses = StatusManager(client=None, pods=self.pods, safety=NothingRuns(), clock=self.clock)
        self.logs, self.trail = LogDirectory(folder / "logs"), PodTrails(clock=self.clock)
        self.stuck = ""

    def add_pod(self, wanted: Pod | None = None, *, attempt: int = 0) -> Pod:
        """Add a pod whose containers all run."""
        given = wanted or pod("web", containers=[container("main")])
        self.pods.update_pod(given)
        self.show(given, attempt=attempt)
        return given

    def show(
        self, given: Pod, *, state: protocol.ContainerState = protocol.ContainerState.RUNNING, attempt: int = 0
    ) -> None:
        """Have the runtime report the pod's containers in a state."""
        uid = PodUid(given.metadata.uid)
        containers = tuple(
            RuntimeContainer(
                id=f"{uid}-{one.name}-{attempt}",
                name=one.name,
                state=state,
                attempt=attempt,
                image=one.image,
                created_at=STARTED,
                started_at=STARTED,
            )
            for one in given.spec.containers
        )
        sandbox = Sandbox(id=f"{uid}-sandbox", created_at=STARTED)
        seen = RuntimePod(
            uid=uid,
            namespace=given.metadata.namespace,
            name=given.metadata.name,
            sandboxes=(sandbox,),
            containers=containers,
        )
        self.runtime.listed[uid] = seen
        self.cache.put(uid, CachedStatus(self.cache.begin(), seen))
        running = ContainerState(running=ContainerStateRunning(started_at="2026-01-02T03:04:05Z"))
        statuses = tuple(
            ContainerStatus(name=one.name, state=running, container_id=f"test://{one.id}") for one in containers
        )
        self.statuses.set_pod_status(given, PodStatus(phase="Running", container_statuses=statuses))

    def log_path(self, given: Pod, name: str = "main", attempt: int = 0) -> Path:
        """The path of a container's log; creates its folder."""
        path = Path(self.logs.path(pod_names(given), name, attempt))
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def front(
        self,
        judge: AccessReviewer,
        *,
        checks: Mapping[str, Check] | None = None,
        commands: protocol.Commands | None = None,
        counts: ServerRequestMetrics | None = None,
        debugging: bool = True,
    ) -> KubeletHandlers:
        """The handlers of the API, without a server."""
        machine = MachineReader(data_dir=self.folder, clock=self.clock)
        stats = StatsProvider(
            node_name=NODE, machine=machine, runtime=cast("protocol.Runtime", self.runtime), usages=self.runtime
        )
        pages = KubeletPages(
            pods=self.pods,
            statuses=self.statuses,
            runtime=cast("protocol.Runtime", self.runtime),
            stats=stats,
            checks=checks or {"syncloop": lambda: self.stuck},
            explain=PodExplainer(
                node_name=NODE,
                pods=self.pods,
                records={},
                statuses=self.statuses,
                trail=self.trail,
                problems=SourceProblemReporter(recorder=LogRecorder(), node=node_reference(NODE)),
                clock=self.clock,
            ).explain,
            collectors=[counts] if counts is not None else [],
        )
        logs = ContainerLogs(
            pods=self.pods, statuses=self.statuses, cache=self.cache, paths=self.logs, clock=self.clock
        )
        doing = PodCommands(pods=self.pods, cache=self.cache, streams=self.streams, commands=commands or self.streams)
        return KubeletHandlers(auth=KubeletAuth(judge), pages=pages, logs=logs, commands=doing, debugging=debugging)

    @asynccontextmanager
    async def serving(
        self, tls: ssl.SSLContext, judge: AccessReviewer, *, debugging: bool = True
    ) -> AsyncIterator[int]:
        """Serves the API on loopback; yields its port."""
        listener = socket.create_server(("127.0.0.1", 0))
        counts = ServerRequestMetrics()
        front = self.front(judge, counts=counts, debugging=debugging)
        async with KubeletServer(front, counts).serving(listener, tls):
            yield listener.getsockname()[1]


class FixedJudge:
    """An AccessReviewer that knows one token and what its user may do, and records what it has to authorize."""

    def __init__(self, *allowed: tuple[str, str], failing: str = "") -> None:
        self._allowed, self._failing = allowed, failing
        self.asked: list[tuple[str, str]] = []

    async def user_of_token(self, token: str) -> KubeletUser | None:
        if self._failing == "authentication":
            raise ReviewFailed("no answer")
        return KubeletUser("jane", ("editors",)) if token == "good" else None

    async def is_allowed(self, caller: KubeletUser, verb: str, subresource: str) -> bool:
        self.asked.append((verb, subresource))
        if self._failing == "authorization":
            raise ReviewFailed("no answer")
        return (verb, subresource) in self._allowed


def asked(
    method: str, target: str, *, token: str = "good", body: bytes = b"", offer: UpgradeOffer | None = None
) -> HttpRequest:
    """A request that did not come through a socket."""

    async def read_body() -> bytes:
        return body

    headers: CIMultiDict[str] = CIMultiDict()
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if body:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    if offer is not None:
        headers.update({"Connection": offer.connection, "Upgrade": offer.upgrade})
        headers.extend([("Sec-WebSocket-Protocol", protocol) for protocol in offer.web_socket_protocols])
        headers.extend([("X-Stream-Protocol-Version", protocol) for protocol in offer.stream_protocols])
    return HttpRequest(method, target, headers, None, "127.0.0.1", read_body)


class Authority:
    """A client authority, and certificates of it for users."""

    def __init__(self, folder: Path) -> None:
        self._authority, self._folder = trustme.CA(), folder
        self.path = folder / "client-ca.crt"
        self._authority.cert_pem.write_to_path(self.path)

    def client(self, user: str, group: str = "system:masters") -> ssl.SSLContext:
        """The TLS context of a client with a certificate of this user; it trusts any server."""
        context = anonymous()
        self._authority.issue_cert(f"{user}.example.com", common_name=user, organization_name=group).configure_cert(
            context
        )
        return context


def anonymous() -> ssl.SSLContext:
    """The TLS context of a client without a certificate; it trusts any server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def own_tls(folder: Path, client_authority: Path | None) -> ssl.SSLContext:
    """The TLS context of a node that made its own certificate."""
    files: ServingFiles = self_signed_certificate(folder / "pki", ["127.0.0.1", NODE], SystemClock().now())
    return server_context(files, PemSource("client-ca", path=str(client_authority)) if client_authority else None)


@asynccontextmanager
async def standalone(folder: Path, *, debugging: bool = True) -> AsyncIterator[tuple[NodeRig, str, ssl.SSLContext]]:
    """A node without an API server; yields the node, its URL, and the TLS context of its administrator."""
    rig, authority = NodeRig(folder), Authority(folder)
    tls = await asyncio.to_thread(own_tls, folder, authority.path)
    async with rig.serving(tls, CertificateOnlyAccess(), debugging=debugging) as port:
        yield rig, f"https://127.0.0.1:{port}", authority.client("admin")
