"""The API server put together: every part is made here, once, and handed to those that need it."""

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass

from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import Ids, RandomIds
from pykubelet.api.resources import PRIORITY_CLASSES, SERVICES
from pykubelet.apiserver.admission import Admission
from pykubelet.apiserver.admission.certificate_requests import CertificateRequests
from pykubelet.apiserver.admission.namespaces import NamespaceLifecycle
from pykubelet.apiserver.admission.new_nodes import NewNodeTaint
from pykubelet.apiserver.admission.node_restriction import NodeRestriction
from pykubelet.apiserver.admission.pods import PodAdmission
from pykubelet.apiserver.admission.rbac_escalation import RbacEscalation
from pykubelet.apiserver.admission.runtime_class import RuntimeClassAdmission
from pykubelet.apiserver.admission.service_account import ServiceAccountAdmission
from pykubelet.apiserver.admission.services import ServiceAddresses
from pykubelet.apiserver.auth.authenticate import Authenticator
from pykubelet.apiserver.auth.authorize import Authorizer
from pykubelet.apiserver.auth.bootstrap_roles import RoleGathering, ensure_default_roles
from pykubelet.apiserver.auth.certificates import KeyPair
from pykubelet.apiserver.auth.default_roles import node_rules
from pykubelet.apiserver.auth.kubeconfig_write import ADMIN, Endpoint, ensure_kubeconfig
from pykubelet.apiserver.auth.node_authorizer import NodeAuthorizer
from pykubelet.apiserver.auth.pki import Pki, PkiError, Renewal, TlsFiles, open_pki, server_context, serving_authority
from pykubelet.apiserver.auth.rbac import Rbac
from pykubelet.apiserver.auth.reviews import Reviews
from pykubelet.apiserver.auth.token_file import TokenFileError, read_token_file
from pykubelet.apiserver.auth.token_request import TokenRequests
from pykubelet.apiserver.auth.tokens import JWKS_PATH, ServiceAccountTokens
from pykubelet.apiserver.call import User
from pykubelet.apiserver.custom.controller import CustomResources
from pykubelet.apiserver.http.app import App, read_body
from pykubelet.apiserver.http.audit import AuditLog
from pykubelet.apiserver.http.front import Front
from pykubelet.apiserver.http.gate import Gate
from pykubelet.apiserver.http.in_flight import InFlight
from pykubelet.apiserver.http.listening import listen, local_url, public_host, with_port
from pykubelet.apiserver.http.metrics import Collector, Metrics, Stored
from pykubelet.apiserver.http.pages import Pages
from pykubelet.apiserver.http.passing_on import PassingOn
from pykubelet.apiserver.http.reply import Reply
from pykubelet.apiserver.kinds import KINDS
from pykubelet.apiserver.local import LocalClient
from pykubelet.apiserver.namespaces.ending import NamespaceEnd
from pykubelet.apiserver.objects.first_objects import ensure_first_objects
from pykubelet.apiserver.proxy.node_client import node_context
from pykubelet.apiserver.proxy.node_proxy import PROXIED, NodeProxy
from pykubelet.apiserver.registry import Registry
from pykubelet.apiserver.server import Handlers, Server
from pykubelet.apiserver.storage.durable_store import DurableStore, open_store
from pykubelet.apiserver.storage.settings import StoreSettings
from pykubelet.apiserver.store import StoreUnusable
from pykubelet.app import program
from pykubelet.app.backups import Backups
from pykubelet.app.kubeconfigs import KUBECONFIG
from pykubelet.app.private_folder import make_private_folder
from pykubelet.app.program import Say, tune_garbage_collection
from pykubelet.app.running import Runner, running, with_event
from pykubelet.app.settings import ApiServerSettings, CannotStart

_DATABASE = "state.db"


def run(settings: ApiServerSettings, *, say: Say) -> None:
    """Serve until SIGINT or SIGTERM. CannotStart if that is not possible."""

    async def main(clock: Clock, stop: asyncio.Event) -> None:
        async with serving(settings, clock=clock, ids=RandomIds()) as served:
            say(f"ready {served.url}")
            tune_garbage_collection()
            await stop.wait()

    program.run(main)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server that answers: where, a way in for parts of the same program, and who vouches for its clients."""

    url: str
    client: LocalClient
    authority: KeyPair

    @property
    def client_authority(self) -> bytes:
        """Its certificate, as PEM."""
        return self.authority.certificate_pem


@asynccontextmanager
async def serving(
    settings: ApiServerSettings, *, clock: Clock, ids: Ids, collectors: Sequence[Collector] = ()
) -> AsyncIterator[Served]:
    """A server that answers, for as long as the context lasts. CannotStart if it cannot.

    Its page of metrics tells what `collectors` have as well.
    """
    async with AsyncExitStack() as stack:
        with _explained(settings):
            ground = await _ground(settings, clock, stack)
        store = ground.store
        registry = Registry(KINDS)
        tokens = ServiceAccountTokens(ground.pki.signing_key, store, clock=clock, ids=ids)
        authenticator = Authenticator(tokens, clock=clock, static=ground.static, newest=store.newest)
        authorizer = Authorizer(NodeAuthorizer(store, node_rules()), Rbac(store))
        admission = _admission(settings, store, authorizer, clock, ids)
        handlers: Handlers = {
            **Reviews(authenticator, authorizer, clock).handlers(),
            ("serviceaccounts", "token"): TokenRequests(tokens=tokens, reader=store, clock=clock, admission=admission),
        }
        server = Server(
            store=store,
            registry=registry,
            clock=clock,
            ids=ids,
            admission=admission,
            handlers=handlers,
            authorize=authorizer.decide,
        )
        await asyncio.gather(
            ensure_default_roles(store, clock=clock, ids=ids), ensure_first_objects(server.handle, registry)
        )
        counters = Metrics(InFlight(), _stored(settings, store, registry), collectors)
        front = Front(
            gate=Gate(authenticator, authorizer),
            kinds=registry,
            verbs=server,
            pages=_pages(ground, registry, tokens, counters),
            counters=counters,
            audit=ground.audit,
            connected=frozenset(PROXIED),
            clock=clock,
        )
        passing_on = PassingOn(NodeProxy(store, node_context(ground.pki, clock)), read_body)
        app = App(front, connect=dict.fromkeys(PROXIED, passing_on.connect), new_id=ids.uid)
        await stack.enter_async_context(running(_runners(settings, ground, registry, server, clock)))
        await stack.enter_async_context(app.serving(ground.listener, ground.tls))
        yield Served(url=ground.url, client=LocalClient(server, registry), authority=ground.pki.authority)


def _runners(
    settings: ApiServerSettings, ground: "_Ground", registry: Registry, server: Server, clock: Clock
) -> dict[str, Runner]:
    store = ground.store
    found: dict[str, Runner] = {
        "backups": with_event(Backups(store, settings.data_dir).run),
        "cluster roles": with_event(RoleGathering(store).run),
        "custom resources": with_event(CustomResources(store=store, registry=registry, clock=clock).run),
        "namespaces": NamespaceEnd(store=store, registry=registry, deleter=server, clock=clock).run,
    }
    if settings.tls_cert is None:
        found["certificate renewal"] = with_event(Renewal(ground.pki, ground.tls, clock=clock).run)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ground:
    """What the server stands on: everything outside the process that it needs."""

    url: str
    public_address: str
    listener: socket.socket
    pki: Pki
    tls: ssl.SSLContext
    static: Mapping[bytes, User]
    store: DurableStore
    audit: AuditLog | None


async def _ground(settings: ApiServerSettings, clock: Clock, stack: AsyncExitStack) -> _Ground:
    data, now = settings.data_dir, clock.now()
    make_private_folder(data, 0o700)
    static = read_token_file(settings.token_file.read_text(), str(settings.token_file)) if settings.token_file else {}
    listener = stack.enter_context(closing(listen(settings.bind, settings.port)))
    port: int = listener.getsockname()[1]
    url, own = local_url(settings.bind, port), public_host(settings.bind)
    external = settings.external_host or own
    hosts = (settings.bind, socket.gethostname(), own, external.partition(":")[0])
    files = TlsFiles(certificate=settings.tls_cert, key=settings.tls_key, client_authority=settings.client_ca)
    pki = open_pki(data / "pki", hosts=hosts, now=now)
    tls = server_context(pki, files)
    lifetimes = {"events": settings.event_ttl_seconds}
    kept = StoreSettings(lifetimes=lifetimes, key_file=settings.encryption_key)
    store = await stack.enter_async_context(open_store(data / _DATABASE, clock=clock, settings=kept))
    audit = stack.enter_context(closing(AuditLog(data / "audit.log", clock))) if settings.audit else None
    ensure_kubeconfig(data / KUBECONFIG, pki, Endpoint(url, serving_authority(pki, files)), ADMIN, now=now)
    return _Ground(
        url=url,
        public_address=with_port(external, port),
        listener=listener,
        pki=pki,
        tls=tls,
        static=static,
        store=store,
        audit=audit,
    )


@contextmanager
def _explained(settings: ApiServerSettings) -> Iterator[None]:
    """What a user can put right becomes a message without a traceback."""
    try:
        yield
    except (StoreUnusable, PkiError, TokenFileError, UnicodeDecodeError) as error:
        raise CannotStart(str(error)) from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CannotStart(f"port {settings.port} of {settings.bind} is in use by another program") from error
        place = error.filename or f"{settings.bind}:{settings.port}"
        raise CannotStart(f"{place}: {error.strerror or error}") from error


def _admission(
    settings: ApiServerSettings, store: DurableStore, authorizer: Authorizer, clock: Clock, ids: Ids
) -> tuple[Admission, ...]:
    rules: tuple[Admission, ...] = (
        NamespaceLifecycle(store.newest),
        NodeRestriction(store.newest, authorizer),
        CertificateRequests(authorizer.decide, clock),
        RbacEscalation(authorizer),
        NewNodeTaint(),
        PodAdmission(lambda: store.list(PRIORITY_CLASSES.group_resource).entries),
        RuntimeClassAdmission(store.newest),
        ServiceAddresses(lambda: store.list(SERVICES.group_resource).entries),
    )
    return (*rules, ServiceAccountAdmission(store.newest, ids)) if settings.service_account_admission else rules


def _pages(ground: _Ground, registry: Registry, tokens: ServiceAccountTokens, counters: Metrics) -> Pages:
    return Pages(
        kinds=registry,
        address=ground.public_address,
        checks={"ping": lambda: "", "etcd": lambda: ground.store.problem},
        metrics_page=counters.page,
        more={
            "/.well-known/openid-configuration": lambda: Reply(200, tokens.discovery(ground.url)),
            JWKS_PATH: lambda: Reply(200, tokens.key_set(), "application/jwk-set+json"),
        },
    )


def _stored(settings: ApiServerSettings, store: DurableStore, registry: Registry) -> Stored:
    def objects() -> dict[str, int]:
        collections = {served.resource.group_resource for served in registry.all() if "list" in served.verbs}
        return {collection: len(store.list(collection).entries) for collection in sorted(collections)}

    return Stored(objects=objects, size_bytes=lambda: (settings.data_dir / _DATABASE).stat().st_size)
