"""A whole API server in a test: the real verbs and the real store, without a network.

async with local_api(tmp_path) as api:
    await api.client.create(PODS, pod, namespace="default")

UIDs and name suffixes are the same in every run.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import LETTERS, SUFFIX_LENGTH, Ids
from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.apiserver.admission.certificates import CertificateAdmission
from pykubelet.apiserver.admission.interfaces import AdmissionPlugin, ValidatePlugin
from pykubelet.apiserver.admission.limitranger import LimitRanger
from pykubelet.apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from pykubelet.apiserver.admission.noderestriction import NodeTaint
from pykubelet.apiserver.admission.plugin.dynamic import DynamicAdmission
from pykubelet.apiserver.admission.plugin.policy.validating import ValidatingPolicies
from pykubelet.apiserver.admission.pods import PriorityAndTolerations, RuntimeClassAdmission
from pykubelet.apiserver.admission.podsecurity.admission import PodSecurity
from pykubelet.apiserver.admission.resourcequota import QuotaAdmission
from pykubelet.apiserver.admission.services import ServiceAllocation
from pykubelet.apiserver.admission.storage import StorageAdmission
from pykubelet.apiserver.apiextensions.controller import CustomResources
from pykubelet.apiserver.handlers.write import allow_all
from pykubelet.apiserver.loopback import LoopbackClient
from pykubelet.apiserver.namespaces import NamespaceTerminator, ensure_first_objects
from pykubelet.apiserver.registry import BUILT_IN_KINDS, ServedKinds
from pykubelet.apiserver.server import Server
from pykubelet.apiserver.storage.durable_store import DurableStore, open_store
from pykubelet.apiserver.storage.interfaces import StoreSettings
from pykubelet.testing.virtual_time import VirtualClock


class CountingIds:
    """Identifiers from a counter; implements `pykubelet.aio.ids.Ids`."""

    def __init__(self) -> None:
        self._count = 0

    def uid(self) -> str:
        self._count += 1
        return f"00000000-0000-4000-8000-{self._count:012x}"

    def suffix(self) -> str:
        self._count += 1
        number, letters = self._count, ""
        for _ in range(SUFFIX_LENGTH):
            number, place = divmod(number, len(LETTERS))
            letters = LETTERS[place] + letters
        return letters


@dataclass(frozen=True, slots=True)
class LocalApi:
    """The server's parts, and a client of it."""

    server: Server
    registry: ServedKinds
    store: DurableStore
    client: LoopbackClient


@asynccontextmanager
async def local_api(
    folder: Path,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
    settings: StoreSettings | None = None,
    ends_namespaces: bool = True,
) -> AsyncIterator[LocalApi]:
    """Run a server with the built-in kinds and the initial namespaces for the duration of the context.

    With `ends_namespaces` false, the deletion of namespaces is left to the namespace controller, as in Kubernetes.
    """
    clock = clock or VirtualClock()
    # Thousands of tests need no space for a full disk.
    settings = settings or StoreSettings(reserve_bytes=0)
    registry = ServedKinds(BUILT_IN_KINDS)
    async with open_store(folder / "state.db", clock=clock, settings=settings) as store:
        admission, validation = _plugins(store, registry, clock)
        server = Server(
            store=store,
            registry=registry,
            clock=clock,
            ids=ids or CountingIds(),
            admission=admission,
            dynamic=DynamicAdmission(validation),
        )
        await ensure_first_objects(server.handle, registry)
        ends = NamespaceTerminator(store=store, registry=registry, deleter=server, clock=clock)
        custom, ready = CustomResources(store=store, registry=registry, clock=clock), asyncio.Event()
        runners = {"custom resources": with_ready_event(custom.run, ready)}
        if ends_namespaces:
            runners["namespaces"] = ends.run
        async with running(runners):
            await ready.wait()
            yield LocalApi(server, registry, store, LoopbackClient(server, registry))


def _plugins(
    store: DurableStore, registry: ServedKinds, clock: Clock
) -> tuple[tuple[AdmissionPlugin, ...], tuple[ValidatePlugin, ...]]:
    """The admission plugins that need no users, and those that validate."""
    limits = LimitRanger(lambda namespace: store.list("limitranges", namespace).entries)
    priorities = PriorityAndTolerations(lambda: store.list("priorityclasses.scheduling.k8s.io").entries)
    services = ServiceAllocation(
        lambda: store.list("services").entries,
        service_cidrs=lambda: store.list("servicecidrs.networking.k8s.io").entries,
        ip_addresses=lambda: store.list("ipaddresses.networking.k8s.io").entries,
    )
    security = PodSecurity(store.newest, lambda namespace: store.list("pods", namespace).entries)
    admission = (
        NamespaceLifecycle(store.newest),
        limits,
        CertificateAdmission(allow_all, clock),
        NodeTaint(),
        priorities,
        RuntimeClassAdmission(store.newest),
        services,
        StorageAdmission(lambda: store.list("storageclasses.storage.k8s.io").entries),
    )
    policies, quotas = ValidatingPolicies(store, registry, allow_all), QuotaAdmission(store, clock)
    return admission, (limits.validate, security.validate, priorities.validate, policies, quotas.validate)
