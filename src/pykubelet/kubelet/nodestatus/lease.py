"""Renews the node's Lease, its cheapest heartbeat.

A renewal is a patch with the resource version it was made from, so that two kubelets under one name notice each other.
The Lease is owned by its Node; while the Node is unknown it is neither created nor renewed.

Upstream: staging/src/k8s.io/component-helpers/apimachinery/lease/controller.go, pkg/kubelet/util/nodelease.go
"""

import asyncio

from pykubelet.aio.backoff import Backoff, Random, Retries, system_random
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError, Conflict, NotFound
from pykubelet.api.generated.coordination import Lease, LeaseSpec
from pykubelet.api.generated.meta import ObjectMeta, OwnerReference
from pykubelet.api.scheme import LEASES, NODES
from pykubelet.api.serializer import Document, to_document
from pykubelet.api.times import format_micro_time
from pykubelet.client.interface import Client

log = get_logger(__name__)

NAMESPACE = "kube-node-lease"
DURATION_SECONDS = 40
RENEWAL = Backoff(first_seconds=10, limit_seconds=10, jitter=0.04)
ENSURE = Backoff(first_seconds=0.2, limit_seconds=7)
TRIES = 5
TRY_SECONDS = 10.0


class NodeLease:
    """The Lease of one node."""

    def __init__(self, *, node_name: str, client: Client, clock: Clock, rand: Random = system_random) -> None:
        self._name, self._client, self._clock, self._rand = node_name, client, clock, rand
        self._latest: Lease | None = None

    async def run(self, ready: asyncio.Event) -> None:
        """Renew until cancelled; `ready` is set after the first attempt."""
        while True:
            await self.renew()
            ready.set()
            await asyncio.sleep(RENEWAL.delay_seconds(1, self._rand))

    async def renew(self) -> bool:
        """Create or renew the Lease; return whether that succeeded."""
        if self._latest is not None and await self._update(self._latest):
            return True
        lease, is_new = await self._ensured()
        self._latest = lease
        return lease is not None and (is_new or await self._update(lease))

    async def _update(self, base: Lease) -> bool:
        """Renew the last seen Lease, with immediate retries."""
        current: Lease | None = base
        for _ in range(TRIES):
            if current is None:
                return False
            try:
                async with asyncio.timeout(TRY_SECONDS):
                    self._latest = await self._renewed(current)
            except Conflict:
                log.info("lease was changed by another client", node=self._name)
                current, _ = await self._ensured()
            except NotFound as error:
                log.warning("lease not renewed", node=self._name, cause=str(error))
                return False
            except (ApiError, TimeoutError) as error:
                log.warning("lease not renewed", node=self._name, cause=str(error) or "no answer in time")
            else:
                return True
        return False

    async def _renewed(self, lease: Lease) -> Lease:
        metadata: Document = {"resourceVersion": lease.metadata.resource_version}
        if not lease.metadata.owner_references:
            metadata["ownerReferences"] = [to_document(await self._owner())]
        spec = {"leaseDurationSeconds": DURATION_SECONDS, "renewTime": format_micro_time(self._clock.now())}
        body = {"metadata": metadata, "spec": spec}
        return await self._client.patch(LEASES, self._name, body, namespace=NAMESPACE)

    async def _ensured(self) -> tuple[Lease | None, bool]:
        """The Lease and whether it was just created; None without its Node. Retries until the server answers."""
        retries = Retries(ENSURE, self._rand)
        while True:
            try:
                async with asyncio.timeout(TRY_SECONDS):
                    return await self._found_or_created()
            except (ApiError, TimeoutError) as error:
                delay = retries.next_delay_seconds()
                log.warning("lease not found or created", node=self._name, cause=str(error), again_in_seconds=delay)
            await asyncio.sleep(delay)

    async def _found_or_created(self) -> tuple[Lease | None, bool]:
        try:
            return await self._client.get(LEASES, self._name, namespace=NAMESPACE), False
        except NotFound:
            log.debug("no lease yet", node=self._name)
        try:
            owner = await self._owner()
        except ApiError as error:
            log.debug("lease not created: its node is unknown", node=self._name, cause=str(error))
            return None, False
        lease = Lease(
            metadata=ObjectMeta(name=self._name, namespace=NAMESPACE, owner_references=(owner,)),
            spec=LeaseSpec(
                holder_identity=self._name,
                lease_duration_seconds=DURATION_SECONDS,
                renew_time=format_micro_time(self._clock.now()),
            ),
        )
        return await self._client.create(LEASES, lease, namespace=NAMESPACE), True

    async def _owner(self) -> OwnerReference:
        node = await self._client.get(NODES, self._name)
        return OwnerReference(api_version="v1", kind="Node", name=self._name, uid=node.metadata.uid)
