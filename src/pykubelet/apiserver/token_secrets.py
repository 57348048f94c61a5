"""Writes tokens into Secrets of the type `kubernetes.io/service-account-token`.

Such a token never expires; deleting the Secret or the service account ends it. The server does this itself, since it has
the key; upstream's controller manager has a copy of it.

Upstream: pkg/controller/serviceaccount/tokens_controller.go
"""

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable

from pykubelet.aio.log import get_logger
from pykubelet.aio.queues import KeyedQueue
from pykubelet.api.errors import ApiError, Conflict, NotFound
from pykubelet.api.schema import SECRETS, SERVICE_ACCOUNTS
from pykubelet.api.serializer import Document, encode
from pykubelet.apiserver.authentication.serviceaccount import BoundObject, ServiceAccountTokens
from pykubelet.apiserver.namespaces import APISERVER
from pykubelet.apiserver.registry import ServedKinds
from pykubelet.apiserver.request import ApiRequest, ApiResponse, Verb, WatchStream
from pykubelet.apiserver.storage.interfaces import Store, StoreChange, StoreEntry, StoreKey

log = get_logger(__name__)

_TYPE = "kubernetes.io/service-account-token"
_NAME, _UID = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"
_RETRY_SECONDS = 5.0


class TokenSecrets:
    """Completes Secrets, and deletes those whose service account is gone. `root_ca` is written beside the token."""

    def __init__(
        self,
        *,
        store: Store,
        registry: ServedKinds,
        handle: Callable[[ApiRequest], Awaitable[ApiResponse | WatchStream]],
        tokens: ServiceAccountTokens,
        root_ca: bytes,
    ) -> None:
        self._store, self._handle, self._tokens, self._root_ca = store, handle, tokens, root_ca
        served = registry.find(SECRETS.group, SECRETS.version, SECRETS.plural)
        assert served is not None
        self._served = served
        self._of_account: dict[StoreKey, set[StoreKey]] = {}
        self._queue: KeyedQueue[StoreKey, None] = KeyedQueue()

    async def run(self, ready: asyncio.Event) -> None:
        """Handles changes of Secrets and service accounts until cancelled."""
        self._store.listen(SECRETS.group_resource, self._secret_changed)
        self._store.listen(SERVICE_ACCOUNTS.group_resource, self._account_changed)
        for entry in self._store.list(SECRETS.group_resource).entries:
            self._put(entry)
        ready.set()
        while True:
            key, _ = await self._queue.get()
            try:
                await self._sync(key)
            except (Conflict, NotFound):
                # A change follows, or nothing is left to do.
                continue
            except ApiError as error:
                log.warning("no token was written", secret=f"{key.namespace}/{key.name}", cause=error.message)
                self._queue.put_later(key, None, _RETRY_SECONDS)
            finally:
                self._queue.done(key)

    def _secret_changed(self, change: StoreChange) -> None:
        if change.before is not None and (account := _account_of(change.before)) is not None:
            secrets = self._of_account.get(account, set())
            secrets.discard(change.key)
            if not secrets:
                self._of_account.pop(account, None)
        if change.after is not None:
            self._put(change.after)

    def _put(self, entry: StoreEntry) -> None:
        if (account := _account_of(entry)) is not None:
            self._of_account.setdefault(account, set()).add(entry.key)
            self._queue.put(entry.key, None)

    def _account_changed(self, change: StoreChange) -> None:
        """Enqueues the Secrets of a new or a deleted account."""
        if change.before is None or change.after is None:
            for key in self._of_account.get(change.key, ()):
                self._queue.put(key, None)

    async def _sync(self, key: StoreKey) -> None:
        entry = self._store.newest(key)
        account_key = _account_of(entry) if entry is not None else None
        if entry is None or account_key is None:
            return
        secret, account = entry.document, self._store.newest(account_key)
        metadata = secret["metadata"]
        annotations, data = metadata.get("annotations", {}), secret.get("data", {})
        uid = "" if account is None else account.document["metadata"]["uid"]
        if annotations.get(_UID, uid) != uid or not uid:
            await self._ask("delete", key)
            return
        wanted: Document = {"ca.crt": _encoded(self._root_ca)} if self._root_ca else {}
        wanted["namespace"] = data.get("namespace") or _encoded(key.namespace.encode())
        wanted["token"] = data.get("token")
        if not wanted["token"]:
            named = BoundObject(account_key.name, uid)
            wanted["token"] = _encoded(self._tokens.issue_legacy(key.namespace, named, key.name).encode())
        if data | wanted == data or "deletionTimestamp" in metadata:
            return
        changed = {**metadata, "annotations": {**annotations, _NAME: account_key.name, _UID: uid}}
        await self._ask("update", key, {**secret, "metadata": changed, "data": data | wanted})

    async def _ask(self, verb: Verb, key: StoreKey, body: Document | None = None) -> None:
        request = ApiRequest(
            user=APISERVER,
            verb=verb,
            served=self._served,
            namespace=key.namespace,
            name=key.name,
            body=b"" if body is None else encode(body),
            user_agent="kube-apiserver",
        )
        await self._handle(request)


def _account_of(entry: StoreEntry) -> StoreKey | None:
    """The service account of a token Secret; None for other Secrets, which are not even decoded."""
    if _TYPE.encode() not in entry.text or entry.document.get("type") != _TYPE:
        return None
    name = entry.document["metadata"].get("annotations", {}).get(_NAME, "")
    return StoreKey(SERVICE_ACCOUNTS.group_resource, entry.key.namespace, name) if name else None


def _encoded(text: bytes) -> str:
    return b64encode(text).decode()
