"""The service account controller: keeps a `default` service account in every namespace.

Pods without a service account run as it.

Upstream: pkg/controller/serviceaccount/serviceaccounts_controller.go
"""

from contextlib import suppress

from pykubelet.api.errors import AlreadyExists
from pykubelet.api.generated.core import Namespace, ServiceAccount
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.scheme import NAMESPACES, SERVICE_ACCOUNTS
from pykubelet.client.indexer import ObjectIndex
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Writer
from pykubelet.controllers.framework.pod_control import terminating_namespace_ignored
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
        informers.add_event_handler(NAMESPACES, changed=self.namespace_changed)
        informers.add_event_handler(SERVICE_ACCOUNTS, deleted=self.account_deleted)

    def namespace_changed(self, namespace: Namespace) -> None:
        self.queue.add(namespace.metadata.name)

    def account_deleted(self, account: ServiceAccount) -> None:
        self.queue.add(account.metadata.namespace)

    async def sync(self, name: str) -> None:
        namespace = self._namespaces.get(f"/{name}")
        if namespace is None or namespace.status.phase != "Active":
            return
        for account in NAMES:
            if self._accounts.get(f"{name}/{account}") is None:
                body = ServiceAccount(metadata=ObjectMeta(name=account, namespace=name))
                with suppress(AlreadyExists), terminating_namespace_ignored():
                    await self._client.create(SERVICE_ACCOUNTS, body, namespace=name)
