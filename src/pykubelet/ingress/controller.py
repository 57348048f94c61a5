"""The ingress controller: follows Ingresses, their classes, Services, EndpointSlices and TLS secrets.

Event handlers bring routes and certificates up to date at once. What an Ingress's author must know is written by `sync`:
the address in the status, and an event for each new problem. Nothing listens, and no secret is read, before there is an
Ingress that needs it.

An Ingress is served if its class has the controller `pykubelet.io/ingress-controller`, or if it has none at all.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pykubelet.aio.backoff import Backoff, Retries
from pykubelet.aio.log import get_logger
from pykubelet.aio.queues import KeyedQueue
from pykubelet.api.errors import AlreadyExists, ApiError, NotFound
from pykubelet.api.generated.core import Secret, Service
from pykubelet.api.generated.networking import Ingress, IngressClass
from pykubelet.api.scheme import ENDPOINT_SLICES, INGRESS_CLASSES, INGRESSES, SERVICES, as_documents
from pykubelet.client.indexer import ObjectIndex, key_of
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client, PatchType
from pykubelet.client.recorder import WARNING, EventRecorder, reference_to
from pykubelet.ingress.backends import BackendProblem, ServiceBackends
from pykubelet.ingress.certificates import IngressCertificates
from pykubelet.ingress.routes import Routes, ServicePortReference, routes_of

log = get_logger(__name__)

CONTROLLER = "pykubelet.io/ingress-controller"
CLASS = "pykubelet"
CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_DEFAULT_CLASS = "ingressclass.kubernetes.io/is-default-class"
_CLASS_KEY = ""
_RETRY = Backoff(first_seconds=0.5, limit_seconds=30, jitter=0.5)
_MESSAGES = {
    BackendProblem.NOT_A_SERVICE: "a backend is a resource; only Services are supported",
    BackendProblem.NO_SERVICE: "Service {service} does not exist",
    BackendProblem.NO_PORT: "Service {service} has no TCP port {port}",
    BackendProblem.EXTERNAL: "Service {service} is of type ExternalName, to which no requests are sent",
}


class Problem(NamedTuple):
    """What keeps an Ingress from working; reason and message of an event."""

    reason: str
    message: str


class PublishedAddress(NamedTuple):
    """Where clients reach the controller."""

    ip: str
    ports: tuple[int, ...]


class IngressController:
    """Syncs Ingresses by `namespace/name`."""

    def __init__(
        self,
        *,
        client: Client,
        recorder: EventRecorder,
        routes: Routes,
        backends: ServiceBackends,
        certificates: IngressCertificates,
    ) -> None:
        self._client, self._recorder = client, recorder
        self._routes, self._backends, self._certificates = routes, backends, certificates
        self._queue: KeyedQueue[str, None] = KeyedQueue()
        self._retries: dict[str, Retries] = {}
        self._served: dict[str, frozenset[str]] = {}
        """The Services of each Ingress that is served."""
        self._users: dict[str, set[str]] = {}
        """The Ingresses that are served, by each Service and secret that they name."""
        self._reported: dict[str, frozenset[Problem]] = {}
        self._address: PublishedAddress | None = None
        self._listener_problems: tuple[str, ...] = ()
        self._are_secrets_known = False
        self.is_needed = asyncio.Event()
        """Set once there is an Ingress to serve."""
        self.needs_secrets = asyncio.Event()
        """Set once an Ingress names a secret."""

    def listen(self, informers: Informers) -> None:
        """Subscribes to everything but secrets."""
        self._ingresses: ObjectIndex[Ingress] = informers.objects(INGRESSES)
        self._classes: ObjectIndex[IngressClass] = informers.objects(INGRESS_CLASSES)
        services: ObjectIndex[Service] = informers.objects(SERVICES)
        self._backends.look_up(services.get)
        informers.add_event_handler(INGRESS_CLASSES, changed=self.class_changed, deleted=self.class_changed)
        informers.add_event_handler(INGRESSES, changed=self.put, deleted=self.remove)
        informers.add_event_handler(SERVICES, changed=self.service_changed, deleted=self.service_changed)
        put, remove = self._backends.put_slice, self._backends.remove_slice
        informers.add_event_handler(ENDPOINT_SLICES, changed=put, deleted=remove)

    def put(self, ingress: Ingress) -> None:
        """An Ingress was added or changed."""
        key = key_of(ingress)
        rivals = self._routes.rivals(key)
        if not self._is_ours(ingress):
            self._forget(key)
        else:
            self._routes.put(ingress)
            self._certificates.put(ingress)
            self._serve(key, ingress)
        for each in {key, *rivals, *self._routes.rivals(key)}:
            self._queue.put(each, None)

    def remove(self, ingress: Ingress) -> None:
        key = key_of(ingress)
        rivals = self._routes.rivals(key)
        self._forget(key)
        # The next one of this name has events of its own.
        self._reported.pop(key, None)
        for each in rivals:
            self._queue.put(each, None)

    def class_changed(self, changed: IngressClass) -> None:
        """A class was added, changed or deleted: the Ingresses that name it may begin or cease to be ours."""
        for ingress in self._ingresses.all():
            if class_name(ingress) == changed.metadata.name:
                self.put(ingress)

    def service_changed(self, service: Service) -> None:
        self._backends.service_changed(service)
        self._requeue(key_of(service))

    def secret_changed(self, secret: Secret) -> None:
        self._certificates.put_secret(secret)
        self._requeue(_secret_key(key_of(secret)))

    def secret_deleted(self, secret: Secret) -> None:
        self._certificates.remove_secret(secret)
        self._requeue(_secret_key(key_of(secret)))

    def secrets_listed(self) -> None:
        """All secrets are known: only now one can be missing."""
        self._are_secrets_known = True
        for key in self._served:
            self._queue.put(key, None)

    def listeners_changed(self, address: PublishedAddress | None, problems: tuple[str, ...]) -> None:
        """The controller is reached here from now on, or has these problems with its ports."""
        self._address, self._listener_problems = address, problems
        for key in self._served:
            self._queue.put(key, None)

    async def run(self, informed: asyncio.Event) -> None:
        """Create the class, and write status and events, until cancelled; begins when everything is known."""
        await informed.wait()
        self._queue.put(_CLASS_KEY, None)
        while True:
            key, _ = await self._queue.get()
            try:
                await self.sync(key)
                self._retries.pop(key, None)
            except ApiError as error:
                delay = self._retries.setdefault(key, Retries(_RETRY)).next_delay_seconds()
                log.warning("ingress not synced", ingress=key, cause=str(error), retry_seconds=round(delay, 1))
                self._queue.put_later(key, None, delay)
            finally:
                self._queue.done(key)

    async def sync(self, key: str) -> None:
        """Write the status of one Ingress, and an event for each of its new problems."""
        if key == _CLASS_KEY:
            await self._create_class()
            return
        ingress = self._ingresses.get(key)
        if ingress is None:
            self._reported.pop(key, None)
            return
        problems = frozenset(self._problems(key, ingress))
        for problem in sorted(problems - self._reported.get(key, frozenset())):
            self._recorder.event(reference_to(ingress), WARNING, problem.reason, problem.message)
        self._reported[key] = problems
        await self._write_status(ingress, is_served=key in self._served)

    def _problems(self, key: str, ingress: Ingress) -> Iterator[Problem]:
        if key not in self._served:
            name = class_name(ingress)
            if name and self._class(name) is None and CLASS_ANNOTATION not in ingress.metadata.annotations:
                message = f"IngressClass {name} does not exist, so nothing serves this Ingress; {CLASS} does"
                yield Problem("IngressClassNotFound", message)
            return
        yield from (Problem("ListenFailed", each) for each in self._listener_problems)
        for backend in {route.backend for route in routes_of(ingress).values()}:
            problem = self._backends.resolve(backend).problem
            if problem is not None:
                yield Problem(problem, _message(problem, backend))
        for conflict in self._routes.conflicts(key):
            message = f"{conflict.place} belongs to Ingress {conflict.winner}, which is older"
            yield Problem("RouteConflict", message)
        if self._are_secrets_known:
            for secret, why in self._certificates.problems(key):
                message = f"secret {secret}: {why}; its hosts have a self-made certificate"
                yield Problem("CertificateNotUsed", message)

    async def _write_status(self, ingress: Ingress, *, is_served: bool) -> None:
        """Publish the address, or withdraw it from an Ingress that is not served any more."""
        wanted = _load_balancer(self._address) if is_served else ()
        present = _present(ingress)
        is_own = self._address is not None and present == _load_balancer(self._address)
        if present == wanted or (not is_served and not is_own):
            return
        meta = ingress.metadata
        body = {"metadata": {"uid": meta.uid}, "status": {"loadBalancer": {"ingress": list(wanted) or None}}}
        try:
            await self._client.patch(
                as_documents(INGRESSES.resource),
                meta.name,
                body,
                namespace=meta.namespace,
                patch_type=PatchType.MERGE,
                subresource="status",
            )
        except NotFound:
            log.debug("ingress deleted before its status was written", ingress=key_of(ingress))

    async def _create_class(self) -> None:
        """Create the class once; a user may change it, or have another default."""
        if self._class(CLASS) is not None:
            return
        has_default = any(one.metadata.annotations.get(_DEFAULT_CLASS) == "true" for one in self._classes.all())
        body = {
            "apiVersion": INGRESS_CLASSES.resource.api_version,
            "kind": INGRESS_CLASSES.resource.kind,
            "metadata": {"name": CLASS, "annotations": {} if has_default else {_DEFAULT_CLASS: "true"}},
            "spec": {"controller": CONTROLLER},
        }
        try:
            await self._client.create(as_documents(INGRESS_CLASSES.resource), body)
        except AlreadyExists:
            log.debug("ingress class exists", name=CLASS)

    def _is_ours(self, ingress: Ingress) -> bool:
        name = class_name(ingress)
        if not name:
            return True
        found = self._class(name)
        if found is None:
            # The annotation is a word that a controller knows rather than the name of a class.
            return name == CLASS and CLASS_ANNOTATION in ingress.metadata.annotations
        return found.spec.controller == CONTROLLER

    def _class(self, name: str) -> IngressClass | None:
        return self._classes.get(f"/{name}")

    def _serve(self, key: str, ingress: Ingress) -> None:
        """Remember whose changes concern an Ingress."""
        self._unlink(key)
        secrets = self._certificates.secrets(key)
        named = {route.backend.service for route in routes_of(ingress).values() if route.backend is not None}
        self._served[key] = frozenset(named) | frozenset(map(_secret_key, secrets))
        for each in self._served[key]:
            self._users.setdefault(each, set()).add(key)
        self.is_needed.set()
        if secrets:
            self.needs_secrets.set()

    def _unlink(self, key: str) -> None:
        for each in self._served.pop(key, ()):
            self._users[each].discard(key)
            if not self._users[each]:
                del self._users[each]

    def _forget(self, key: str) -> None:
        self._routes.remove(key)
        self._certificates.remove(key)
        self._unlink(key)

    def _requeue(self, named: str) -> None:
        for key in self._users.get(named, ()):
            self._queue.put(key, None)


def class_name(ingress: Ingress) -> str:
    """The name of an Ingress's class; empty if it has none."""
    return ingress.spec.ingress_class_name or ingress.metadata.annotations.get(CLASS_ANNOTATION, "")


def _secret_key(secret: str) -> str:
    """A secret among the names of Services; no name has a colon."""
    return f"secret:{secret}"


def _message(problem: BackendProblem, backend: ServicePortReference | None) -> str:
    text = _MESSAGES[problem]
    return text if backend is None else text.format(service=backend.service, port=backend.port)


def _load_balancer(address: PublishedAddress | None) -> tuple[Mapping[str, Any], ...]:
    if address is None:
        return ()
    return ({"ip": address.ip, "ports": [{"port": port, "protocol": "TCP"} for port in address.ports]},)


def _present(ingress: Ingress) -> tuple[Mapping[str, Any], ...]:
    return tuple(
        {
            **({"hostname": one.hostname} if one.hostname else {}),
            "ip": one.ip,
            "ports": [{"port": each.port, "protocol": each.protocol} for each in one.ports],
        }
        for one in ingress.status.load_balancer.ingress
    )
