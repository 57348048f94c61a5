"""A whole API server in a test: the real verbs and the real store, without a network.

async with local_api(tmp_path) as api:
    await api.client.create(PODS, pod, namespace="default")
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import Ids
from pykubelet.apiserver.admission.certificate_requests import CertificateRequests
from pykubelet.apiserver.admission.namespaces import NamespaceLifecycle
from pykubelet.apiserver.admission.new_nodes import NewNodeTaint
from pykubelet.apiserver.admission.pods import PodAdmission
from pykubelet.apiserver.admission.runtime_class import RuntimeClassAdmission
from pykubelet.apiserver.admission.services import ServiceAddresses
from pykubelet.apiserver.custom.controller import CustomResources
from pykubelet.apiserver.kinds import KINDS
from pykubelet.apiserver.local import LocalClient
from pykubelet.apiserver.namespaces.ending import NamespaceEnd
from pykubelet.apiserver.objects.first_objects import ensure_first_objects
from pykubelet.apiserver.registry import Registry
from pykubelet.apiserver.server import Server
from pykubelet.apiserver.storage.durable_store import DurableStore, open_store
from pykubelet.apiserver.storage.settings import StoreSettings
from pykubelet.apiserver.verbs.means import allow_all
from pykubelet.app.running import running, with_event
from pykubelet.testing.counting_ids import CountingIds
from pykubelet.testing.virtual_time import VirtualClock


@dataclass(frozen=True, slots=True)
class LocalApi:
    """The server's parts, and a client of it."""

    server: Server
    registry: Registry
    store: DurableStore
    client: LocalClient


@asynccontextmanager
async def local_api(
    folder: Path,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
    settings: StoreSettings | None = None,
    ends_namespaces: bool = True,
) -> AsyncIterator[LocalApi]:
    """A server with the built-in kinds and the first namespaces, for as long as the context lasts.

    One that does not end namespaces leaves that to a controller, as Kubernetes' own does.
    """
    clock = clock or VirtualClock()
    registry = Registry(KINDS)
    async with open_store(folder / "state.db", clock=clock, settings=settings) as store:
        server = Server(
            store=store,
            registry=registry,
            clock=clock,
            ids=ids or CountingIds(),
            admission=(
                NamespaceLifecycle(store.newest),
                CertificateRequests(allow_all, clock),
                NewNodeTaint(),
                PodAdmission(lambda: store.list("priorityclasses.scheduling.k8s.io").entries),
                RuntimeClassAdmission(store.newest),
                ServiceAddresses(lambda: store.list("services").entries),
            ),
        )
        await ensure_first_objects(server.handle, registry)
        ends = NamespaceEnd(store=store, registry=registry, deleter=server, clock=clock)
        custom, ready = CustomResources(store=store, registry=registry, clock=clock), asyncio.Event()
        runners = {"custom resources": with_event(custom.run, ready)}
        if ends_namespaces:
            runners["namespaces"] = ends.run
        async with running(runners):
            await ready.wait()
            yield LocalApi(server, registry, store, LocalClient(server, registry))
