"""The service account controller: keeps a `default` service account in every namespace.

Pods without a service account run as it.

Upstream: pkg/controller/serviceaccount/serviceaccounts_controller.go
"""

from contextlib import suppress

from pykubelet.api.errors import AlreadyExists, ApiError
from pykubelet.api.generated.core import Namespace, ServiceAccount
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.scheme import NAMESPACES, SERVICE_ACCOUNTS
from pykubelet.client.indexer import ObjectIndex
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Writer
from pykubelet.controllers.framework.pod_control import NAMESPACE_TERMINATING
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue

NAMES = ("default",)


class ServiceAccountsController(KeyedController):
    """Syncs namespaces by name."""

    def __init__(
        self, *, client: Writer, namespaces: ObjectIndex[Namespace], accounts: ObjectIndex[ServiceAccount]
    ) -> None:
        self._client, self._namespaces, self._accounts = client, namespaces, accounts
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        """Subscribes to changes of namespaces and deletions of service accounts."""
        informers.add_event_handler(NAMESPACES, changed=self.namespace_changed)
        informers.add_event_handler(
            SERVICE_ACCOUNTS,
            deleted=self.account_deleted,
        )

    def namespace_changed(self, namespace: Namespace) -> None:
        """Enqueues a new or changed namespace."""
        self.queue.add(namespace.metadata.name)

    def account_deleted(self, account: ServiceAccount) -> None:
        """Enqueues the namespace of a deleted account."""
        self.queue.add(account.metadata.namespace)

    async def sync(self, name: str) -> None:
        """Creates the missing accounts of one namespace."""
        namespace = self._namespaces.get(f"/{name}")
        if namespace is None or namespace.status.phase != "Active":
            return
        for account in NAMES:
            if self._accounts.get(f"{name}/{account}") is None:
                await self._create(ServiceAccount(metadata=ObjectMeta(name=account, namespace=name)))

    async def _create(self, account: ServiceAccount) -> None:
        with suppress(AlreadyExists):
            try:
                await self._client.create(SERVICE_ACCOUNTS, account, namespace=account.metadata.namespace)
            except ApiError as error:
                if not error.has_cause(NAMESPACE_TERMINATING):
                    raise
