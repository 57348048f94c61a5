"""Composes the API server: creates every part once and connects it.

Upstream: cmd/kube-apiserver/app/server.go
"""

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from functools import partial

from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import Ids, RandomIds
from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import Runner, running, with_ready_event
from pykubelet.api.schema import (
    ENDPOINT_SLICES,
    NAMESPACES,
    NODES,
    SERVICES,
)
from pykubelet.api.serializer import Document
from pykubelet.apiserver import kubernetesservice
from pykubelet.apiserver.admission.interfaces import AdmissionPlugin
from pykubelet.apiserver.admission.plugin.dynamic import DynamicAdmission
from pykubelet.apiserver.admission.plugin.webhook.configuration import WebhookConfigurations
from pykubelet.apiserver.admission.plugin.webhook.dispatcher import AdmissionWebhooks
from pykubelet.apiserver.admission.plugin.webhook.metrics import WebhookMetrics
from pykubelet.apiserver.admission.plugin.webhook.predicates import AdmissionMatcher
from pykubelet.apiserver.admission.plugins import admission_plugins, validate_plugins
from pykubelet.apiserver.apiextensions.controller import CustomResources
from pykubelet.apiserver.authentication.authenticator import Authenticator
from pykubelet.apiserver.authentication.serviceaccount import JWKS_PATH, ServiceAccountTokens
from pykubelet.apiserver.authentication.tokenfile import TokenFileError, read_token_file
from pykubelet.apiserver.authorization.authorizer import Authorizer
from pykubelet.apiserver.authorization.bootstrappolicy import ClusterRoleAggregation, ensure_default_roles, node_rules
from pykubelet.apiserver.authorization.node import NodeAuthorizer
from pykubelet.apiserver.authorization.rbac import RbacAuthorizer
from pykubelet.apiserver.certs.certificates import CertificateKeyPair
from pykubelet.apiserver.certs.kubeconfig import ADMIN, Endpoint, ensure_kubeconfig
from pykubelet.apiserver.certs.pki import (
    Pki,
    PkiError,
    Renewal,
    TlsFiles,
    node_context,
    open_pki,
    server_context,
    serving_authority,
)
from pykubelet.apiserver.filters.access import AccessFilter
from pykubelet.apiserver.filters.audit import AuditLog
from pykubelet.apiserver.filters.chain import HandlerChain
from pykubelet.apiserver.filters.metrics import ApiServerMetrics, ExtraCollector, StorageFigures, object_counts
from pykubelet.apiserver.flowcontrol.controller import FlowController
from pykubelet.apiserver.flowcontrol.ensurer import ensure_flow_control
from pykubelet.apiserver.handlers.access_reviews import AccessReviews
from pykubelet.apiserver.handlers.token_request import TokenRequests
from pykubelet.apiserver.ip_addresses import IpAddressRepair
from pykubelet.apiserver.kubernetesservice import ApiEndpoint, KubernetesService
from pykubelet.apiserver.loopback import LoopbackClient
from pykubelet.apiserver.metricsserver.api import METRICS_KINDS, MetricsApi
from pykubelet.apiserver.metricsserver.scraper import UsageScraper
from pykubelet.apiserver.namespaces import NamespaceTerminator, ensure_first_objects
from pykubelet.apiserver.nonresource import OPENID_PATH, NonResourceHandler, json_web_keys, openid_configuration
from pykubelet.apiserver.pod_listener import LocalPeers, PodListener
from pykubelet.apiserver.podproxy.handler import PROXIED, NodeProxy, UpgradeAwareHandler
from pykubelet.apiserver.registry import BUILT_IN_KINDS, ServedKinds
from pykubelet.apiserver.request import UserInfo
from pykubelet.apiserver.secure_serving import ApiHttpServer
from pykubelet.apiserver.server import Server
from pykubelet.apiserver.storage.backup import BACKUP_FILE, BackupWriter
from pykubelet.apiserver.storage.database_file import set_aside
from pykubelet.apiserver.storage.durable_store import DurableStore, open_store
from pykubelet.apiserver.storage.interfaces import (
    StoreEntry,
    StoreInUse,
    StoreKey,
    StoreRefused,
    StoreSettings,
    StoreUnusable,
)
from pykubelet.apiserver.token_secrets import TokenSecrets
from pykubelet.apiserver.webhook_client import ServiceResolver, WebhookClient
from pykubelet.app import program
from pykubelet.app.holders import file_holder, port_taken
from pykubelet.app.pod_network import MACHINE_NETWORK, NodeNetwork
from pykubelet.app.program import KUBECONFIG, Say, make_private_folder, tune_garbage_collection
from pykubelet.app.settings import ApiServerSettings, CannotStart
from pykubelet.httpserver.dialer import Dialer
from pykubelet.httpserver.https_client import HttpsClient
from pykubelet.httpserver.listener import is_loopback, is_unspecified, listen, local_url, public_host, with_port
from pykubelet.podnetwork.node_address import node_address
from pykubelet.podnetwork.pod_side import PodSidePlace

log = get_logger(__name__)

_DATABASE = "state.db"
_AUDIT_LOG = "audit.log"
_WRITTEN_LATER = (KUBECONFIG, _AUDIT_LOG, BACKUP_FILE)
"""Files that are written only once there is a database."""


def run(settings: ApiServerSettings, *, say: Say) -> None:
    """Serve until SIGINT or SIGTERM; CannotStart if that is impossible."""

    async def main(clock: Clock, stop: asyncio.Event) -> None:
        async with serving(settings, clock=clock, ids=RandomIds()) as served:
            say(f"ready {served.url}")
            tune_garbage_collection()
            await stop.wait()

    program.run(main)


@dataclass(frozen=True, slots=True)
class RunningApiServer:
    """A running server: its URL, an in-process client, the authority of its client certificates, and its way to nodes."""

    url: str
    client: LoopbackClient
    authority: CertificateKeyPair
    node_proxy: NodeProxy

    @property
    def client_authority(self) -> bytes:
        """The authority's certificate as PEM."""
        return self.authority.certificate_pem


@asynccontextmanager
async def serving(
    settings: ApiServerSettings,
    *,
    clock: Clock,
    ids: Ids,
    collectors: Sequence[ExtraCollector] = (),
    network: NodeNetwork = MACHINE_NETWORK,
) -> AsyncIterator[RunningApiServer]:
    """Run the server, with the metrics of `collectors`; CannotStart if impossible. Pods are in `network`."""
    async with AsyncExitStack() as stack:
        with _explain_errors(settings):
            deps = await _dependencies(settings, clock, stack)
        store = deps.store
        registry = ServedKinds((*BUILT_IN_KINDS, *METRICS_KINDS))
        tokens = ServiceAccountTokens(deps.pki.signing_key, store.get, clock=clock, ids=ids)
        authenticator = Authenticator(tokens, clock=clock, static=deps.static, newest=store.newest)
        authorizer = Authorizer(NodeAuthorizer(store, node_rules()), RbacAuthorizer(store))
        admission = _admission(settings, store, registry, authorizer, clock, ids)
        node_proxy = _node_proxy(settings, deps, clock, network.dialer)
        usage = _usage_scraper(store, node_proxy)
        own = MetricsApi(usage, store.get, clock).handlers()
        reviews = AccessReviews(authenticator, authorizer, clock).handlers()
        webhooks = _webhooks(store, registry, authorizer, clock, ids, network.dialer)
        dynamic = DynamicAdmission(validate_plugins(store, registry, authorizer, clock), webhooks)
        issuer = TokenRequests(tokens=tokens, store=store, clock=clock, admission=admission, dynamic=dynamic)
        server = Server(
            store=store,
            registry=registry,
            clock=clock,
            ids=ids,
            admission=admission,
            handlers={**own, **reviews, ("serviceaccounts", "token"): issuer},
            dynamic=dynamic,
            authorize=authorizer.decide,
        )
        await _ensure_objects(settings, server, store, registry, clock, ids)
        counters = _counters(settings, store, registry, clock, (*collectors, webhooks.metrics))
        nonresource = _nonresource_handler(deps, registry, tokens, counters)
        access = AccessFilter(authenticator.authenticate, authorizer.decide)
        chain = _handler_chain(deps, access, registry, server, nonresource, counters, clock)
        connect = dict.fromkeys(PROXIED, UpgradeAwareHandler(node_proxy, server.admit_connection).connect)
        http_server = partial(ApiHttpServer, chain, connect=connect, new_id=ids.uid)
        enter = stack.enter_async_context
        await enter(_background_work(settings, deps, registry, server, clock, usage, tokens))
        await enter(_service_of_itself(settings, deps, registry, server, http_server, network.side))
        await enter(http_server().serving(deps.listener, deps.tls))
        yield RunningApiServer(deps.url, LoopbackClient(server, registry), deps.pki.authority, node_proxy)


async def _ensure_objects(
    settings: ApiServerSettings, server: Server, store: DurableStore, registry: ServedKinds, clock: Clock, ids: Ids
) -> None:
    """Creates the objects that every cluster has, where they are missing."""
    await asyncio.gather(
        ensure_default_roles(store, clock=clock, ids=ids),
        ensure_first_objects(server.handle_itself, registry, with_account=settings.with_node),
        ensure_flow_control(server.handle_itself),
    )


def _handler_chain(
    deps: "_ServerDependencies",
    access: AccessFilter,
    registry: ServedKinds,
    server: Server,
    nonresource: NonResourceHandler,
    counters: ApiServerMetrics,
    clock: Clock,
) -> HandlerChain:
    return HandlerChain(
        access=access,
        kinds=registry,
        handle=server.handle,
        nonresource=nonresource,
        metrics=counters,
        audit=deps.audit,
        proxied=frozenset(PROXIED),
        clock=clock,
    )


@asynccontextmanager
async def _service_of_itself(
    settings: ApiServerSettings,
    deps: "_ServerDependencies",
    registry: ServedKinds,
    server: Server,
    http_server: Callable[..., ApiHttpServer],
    place: PodSidePlace,
) -> AsyncIterator[None]:
    """Keep the service `kubernetes` and, if the server is on loopback in a cluster, its listener for pods."""
    address, port = deps.listener.getsockname()[:2]
    service = KubernetesService(
        store=deps.store,
        registry=registry,
        handle=server.handle_itself,
        cluster_ip=_service_address(settings),
        port=port,
    )
    in_place, listens = asyncio.Event(), asyncio.Event()
    runners: dict[str, Runner] = {}
    if not is_loopback(settings.bind):
        reachable = node_address() if is_unspecified(address) else address
        service.set_endpoint(ApiEndpoint(reachable, port) if reachable else None)
    elif settings.with_node:
        accepts = None if place.is_private else LocalPeers(deps.store).accepts

        def moved(endpoint: ApiEndpoint | None) -> None:
            service.set_endpoint(endpoint)
            if endpoint is not None:
                deps.renewal.add_name(endpoint.address)

        listener = PodListener(
            serve=lambda opened: http_server(accepts=accepts).serving(opened, deps.tls),
            port=port,
            moved=moved,
            place=place,
        )
        runners["listener for pods"] = with_ready_event(listener.run, listens)
    else:
        log.info("the service kubernetes has no endpoints: this server listens on loopback only")
    async with running(runners):
        if runners:
            await listens.wait()
        async with running({"service kubernetes": with_ready_event(service.run, in_place)}):
            await in_place.wait()
            yield


@asynccontextmanager
async def _background_work(
    settings: ApiServerSettings,
    deps: "_ServerDependencies",
    registry: ServedKinds,
    server: Server,
    clock: Clock,
    usage: UsageScraper,
    tokens: ServiceAccountTokens,
) -> AsyncIterator[None]:
    """Run the server's own controllers, certificate renewal and backups for the duration of the context."""
    store, takes_signals = deps.store, asyncio.Event()
    addresses = IpAddressRepair(
        store=store, registry=registry, handle=server.handle, cluster_ips=settings.service_cluster_ips, clock=clock
    )
    secrets = TokenSecrets(
        store=store,
        registry=registry,
        handle=server.handle,
        tokens=tokens,
        root_ca=deps.pki.authority.certificate_pem,
    )
    runners: dict[str, Runner] = {
        "backups": with_ready_event(BackupWriter(store, settings.data_dir).run, takes_signals),
        "cluster roles": with_ready_event(ClusterRoleAggregation(store).run),
        "custom resources": with_ready_event(CustomResources(store=store, registry=registry, clock=clock).run),
        "ip addresses": with_ready_event(addresses.run),
        "namespaces": NamespaceTerminator(store=store, registry=registry, deleter=server, clock=clock).run,
        "token secrets": with_ready_event(secrets.run),
        "usage of nodes": usage.run,
    }
    if settings.tls_cert is None:
        runners["certificate renewal"] = with_ready_event(deps.renewal.run)
    async with running(runners):
        # Before users learn that the server is ready: a request for a backup without its handler ends the program.
        await takes_signals.wait()
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class _ServerDependencies:
    """Everything outside the process that the server needs."""

    url: str
    public_address: str
    keys_url: str
    """The URL at which verifiers of service account tokens, such as pods, fetch the public keys from this server."""
    listener: socket.socket
    pki: Pki
    tls: ssl.SSLContext
    renewal: Renewal
    static: Mapping[bytes, UserInfo]
    store: DurableStore
    audit: AuditLog | None


async def _dependencies(settings: ApiServerSettings, clock: Clock, stack: AsyncExitStack) -> _ServerDependencies:
    data, now = settings.data_dir, clock.now()
    make_private_folder(data, 0o700)
    static = read_token_file(settings.token_file.read_text(), str(settings.token_file)) if settings.token_file else {}
    listener = stack.enter_context(closing(listen(settings.bind, settings.port)))
    port: int = listener.getsockname()[1]
    url, own = local_url(settings.bind, port), public_host(settings.bind)
    external = settings.external_host or own
    hosts = (settings.bind, socket.gethostname(), own, external.partition(":")[0], _service_address(settings))
    public = with_port(external, port)
    is_for_itself = is_loopback(settings.bind) and not (settings.with_node or settings.external_host)
    files = TlsFiles(certificate=settings.tls_cert, key=settings.tls_key, client_authority=settings.client_ca)
    pki = open_pki(data / "pki", hosts=hosts, now=now)
    tls = server_context(pki, files)
    lifetimes = {"events": settings.event_ttl_seconds}
    kept = StoreSettings(lifetimes=lifetimes, key_file=settings.encryption_key)
    _check_database(settings)
    store = await stack.enter_async_context(open_store(data / _DATABASE, clock=clock, settings=kept))
    _check_service_range(settings, store)
    audit = stack.enter_context(closing(AuditLog(data / _AUDIT_LOG, clock))) if settings.audit else None
    ensure_kubeconfig(data / KUBECONFIG, pki, Endpoint(url, serving_authority(pki, files)), ADMIN, now=now)
    return _ServerDependencies(
        url=url,
        public_address=public,
        keys_url=url if is_for_itself else f"https://{public}",
        listener=listener,
        pki=pki,
        tls=tls,
        renewal=Renewal(pki, tls, clock=clock),
        static=static,
        store=store,
        audit=audit,
    )


def _check_database(settings: ApiServerSettings) -> None:
    """Make way for a new database if the user wants one; StoreRefused if one is missing."""
    path = settings.data_dir / _DATABASE
    if settings.start_empty:
        if (kept := set_aside(path)) is not None:
            log.info("starting without objects: the database was renamed", kept=kept)
    elif not path.exists():
        trace = next((name for name in _WRITTEN_LATER if (settings.data_dir / name).exists()), "")
        if trace:
            raise StoreRefused(f"{path} is missing, although {trace} shows that there was one")


def _service_address(settings: ApiServerSettings) -> str:
    return str(settings.service_cluster_ips[kubernetesservice.ADDRESS_INDEX])


def _check_service_range(settings: ApiServerSettings, store: DurableStore) -> None:
    """CannotStart if the cluster has another range: pods know the addresses of services for as long as they live."""
    key = StoreKey(SERVICES.group_resource, kubernetesservice.NAMESPACE, kubernetesservice.NAME)
    entry, address = store.get(key), _service_address(settings)
    found = address if entry is None else entry.document["spec"].get("clusterIP", address)
    if found != address:
        raise CannotStart(
            f"the service kubernetes of this cluster has the address {found}, which is not the first one of "
            f"{settings.service_cluster_ips}: choose its range with --service-cluster-ip-range, or start an empty "
            "cluster with --new"
        )


@contextmanager
def _explain_errors(settings: ApiServerSettings) -> Iterator[None]:
    """Translate errors that a user can fix into CannotStart."""
    try:
        yield
    except StoreRefused as error:
        raise CannotStart(
            f"{error}; restore a backup of it (docs/guides/upgrade-and-back-up.md), "
            "or start an empty cluster with --new, which stops the pods of the old one and keeps its files"
        ) from error
    except StoreInUse as error:
        holder = file_holder(settings.data_dir / _DATABASE)
        user = "another process" if holder is None else str(holder)
        raise CannotStart(f"{settings.data_dir} is in use by {user}: stop it, or choose another --data-dir") from error
    except (StoreUnusable, PkiError, TokenFileError, UnicodeDecodeError) as error:
        raise CannotStart(str(error)) from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            taken = port_taken(settings.port, settings.bind, data_dir=settings.data_dir)
            raise CannotStart(taken) from error
        place = error.filename or f"{settings.bind}:{settings.port}"
        raise CannotStart(f"{place}: {error.strerror or error}") from error


def _admission(
    settings: ApiServerSettings,
    store: DurableStore,
    registry: ServedKinds,
    authorizer: Authorizer,
    clock: Clock,
    ids: Ids,
) -> tuple[AdmissionPlugin, ...]:
    with_accounts, cluster_ips = settings.service_account_admission, settings.service_cluster_ips
    return admission_plugins(
        store,
        registry,
        authorizer,
        clock,
        ids,
        with_accounts=with_accounts,
        with_node=settings.with_node,
        cluster_ips=cluster_ips,
    )


def _webhooks(
    store: DurableStore, registry: ServedKinds, authorizer: Authorizer, clock: Clock, ids: Ids, dialer: Dialer
) -> AdmissionWebhooks:
    def namespace_of(name: str) -> Document | None:
        entry = store.newest(StoreKey(NAMESPACES.group_resource, "", name))
        return None if entry is None else entry.document

    def slices_in(namespace: str) -> Sequence[StoreEntry]:
        return store.list(ENDPOINT_SLICES.group_resource, namespace).entries

    client = WebhookClient(HttpsClient(dialer), ServiceResolver(store.get, slices_in))
    return AdmissionWebhooks(
        configurations=WebhookConfigurations(store, client.forget),
        matcher=AdmissionMatcher(registry, namespace_of),
        client=client,
        authorize=authorizer.decide,
        metrics=WebhookMetrics(),
        clock=clock,
        ids=ids,
    )


def _counters(
    settings: ApiServerSettings,
    store: DurableStore,
    registry: ServedKinds,
    clock: Clock,
    more: Sequence[ExtraCollector],
) -> ApiServerMetrics:
    size_bytes = partial(os.path.getsize, settings.data_dir / _DATABASE)
    figures = StorageFigures(objects=partial(object_counts, store, registry), size_bytes=size_bytes)
    flow = FlowController(clock, lambda collection: len(store.entries(collection)))
    flow.follow(store)
    return ApiServerMetrics(flow, figures, more)


def _node_proxy(settings: ApiServerSettings, deps: _ServerDependencies, clock: Clock, dialer: Dialer) -> NodeProxy:
    # Nodes elsewhere cannot reach a server on loopback, so no other machine's node can name this one's loopback.
    at_loopback = is_loopback(settings.bind)
    return NodeProxy(deps.store.get, node_context(deps.pki, clock), nodes_at_loopback=at_loopback, dialer=dialer)


def _usage_scraper(store: DurableStore, proxy: NodeProxy) -> UsageScraper:
    def nodes() -> list[Document]:
        return [entry.document for entry in store.entries(NODES.plural)]

    return UsageScraper(nodes, partial(proxy.fetch, path="/metrics/resource"))


def _nonresource_handler(
    deps: _ServerDependencies, registry: ServedKinds, tokens: ServiceAccountTokens, counters: ApiServerMetrics
) -> NonResourceHandler:
    return NonResourceHandler(
        kinds=registry,
        address=deps.public_address,
        checks={"ping": str, "etcd": deps.store.health_error},
        metrics_page=counters.page,
        more={
            OPENID_PATH: partial(openid_configuration, tokens, deps.keys_url),
            JWKS_PATH: partial(json_web_keys, tokens),
        },
    )
