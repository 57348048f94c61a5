"""WebhookClient: calls webhooks by URL or through a Service, for admission and for conversion.

A Service is resolved through its EndpointSlices to the address of a ready pod, because this server may have no way to
cluster IPs.

Upstream: staging/src/k8s.io/apiserver/pkg/util/webhook/client.go, staging/src/k8s.io/apiserver/pkg/util/webhook/webhook.go,
staging/src/k8s.io/apiserver/pkg/util/proxy/proxy.go, staging/src/k8s.io/client-go/rest/request.go
"""

import asyncio
import base64
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pykubelet.api.field_errors import go_quote
from pykubelet.api.schema import SERVICES
from pykubelet.api.serializer import DecodeError, Document, decode_document, encode
from pykubelet.apiserver.podproxy.location import is_proxyable
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey
from pykubelet.httpserver.http_failure import HttpFailure
from pykubelet.httpserver.https_client import BadAuthorities, HttpsClient, HttpsPost

MAX_CALLS = 100
"""Calls of one webhook at a time; further ones wait, within their timeout."""
_DEFAULT_PORT = 443
_SERVICE_NAME_LABEL = "kubernetes.io/service-name"
_MAX_TEXT_BYTES = 2048
_MESSAGES = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
# The server explains these itself.
_TEXT_CODES = frozenset({403, 406, 415})
_ROUTABLE = ("ClusterIP", "LoadBalancer", "NodePort")


class WebhookCallError(Exception):
    """A webhook could not be called, or gave no usable answer; the message has upstream's words.

    `stage` is what failed: the call, or the preparation for it.
    """

    def __init__(self, message: str, stage: str = "failed to call webhook") -> None:
        super().__init__(message)
        self.stage = stage


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """Where a webhook is: the clientConfig of its configuration."""

    url: str
    authorities: str = ""
    service: tuple[str, str] | None = None
    """Namespace and name."""
    port: int = _DEFAULT_PORT

    @classmethod
    def of(cls, client: Document) -> "WebhookTarget":
        bundle = base64.b64decode(client.get("caBundle") or "").decode("ascii", "replace")
        service = client.get("service")
        if service is None:
            return cls(client.get("url") or "", bundle)
        namespace, name = service["namespace"], service["name"]
        port = service.get("port") or _DEFAULT_PORT
        path = (service.get("path") or "/").removeprefix("/")
        return cls(f"https://{name}.{namespace}.svc:{port}/{path}", bundle, (namespace, name), port)


class ServiceResolver:
    """Finds addresses of pods behind services in the store.

    `get` returns the entry of a key, `slices_in` those of a namespace's EndpointSlices.
    """

    def __init__(
        self, get: Callable[[StoreKey], StoreEntry | None], slices_in: Callable[[str], Iterable[StoreEntry]]
    ) -> None:
        self._get, self._slices_in = get, slices_in
        self._calls = 0

    def resolve(self, namespace: str, name: str, port: int) -> tuple[str, int]:
        """The address and port of a ready pod, another one with each call; WebhookCallError if there is none."""
        entry = self._get(StoreKey(SERVICES.group_resource, namespace, name))
        if entry is None:
            raise WebhookCallError(f"service {go_quote(name)} not found")
        spec = entry.document["spec"]
        if spec["type"] not in _ROUTABLE:
            raise WebhookCallError(f"unsupported service type {go_quote(spec['type'])}")
        found = next((row for row in spec.get("ports") or () if row["port"] == port), None)
        if found is None:
            raise WebhookCallError(f"no service port {port} found for service {go_quote(name)}")
        mark = encode({_SERVICE_NAME_LABEL: name})[1:-1]
        slices = (entry.document for entry in self._slices_in(namespace) if mark in entry.text)
        addresses = [place for one in slices for place in ready_addresses(one, name, found.get("name") or "")]
        if not addresses:
            raise WebhookCallError(f"no endpoints available for service {go_quote(name)}")
        self._calls += 1
        address, number = addresses[self._calls % len(addresses)]
        if not is_proxyable(address, at_loopback=False):
            raise WebhookCallError(f"address {address} not allowed")
        return address, number


def ready_addresses(one: Document, service: str, port_name: str) -> list[tuple[str, int]]:
    """The addresses of a service's ready endpoints in an EndpointSlice, with the number of the port of this name."""
    if (one["metadata"].get("labels") or {}).get(_SERVICE_NAME_LABEL) != service:
        return []
    numbers = [
        port["port"] for port in one.get("ports") or () if port.get("name", "") == port_name and port.get("port")
    ]
    return [
        (endpoint["addresses"][0], number)
        for number in numbers[:1]
        for endpoint in one.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready") is not False
    ]


class WebhookClient:
    """Calls webhooks. At most `MAX_CALLS` calls of one target are under way."""

    def __init__(self, client: HttpsClient, resolver: ServiceResolver) -> None:
        self._client, self._resolver = client, resolver
        self._slots: dict[WebhookTarget, asyncio.Semaphore] = {}

    async def call(self, target: WebhookTarget, review: Document, *, seconds: int | None) -> Any:
        """Posts a review and returns the decoded answer; WebhookCallError if there is none."""
        url = target.url if seconds is None else f"{target.url}?timeout={seconds}s"
        slots = self._slots.get(target) or self._slots.setdefault(target, asyncio.Semaphore(MAX_CALLS))
        try:
            async with asyncio.timeout(seconds), slots:
                try:
                    address = self._resolver.resolve(*target.service, target.port) if target.service else None
                except WebhookCallError as error:
                    raise WebhookCallError(f'Post "{url}": {error}') from error
                answer = await self._client.post(
                    HttpsPost(url=url, body=encode(review), authorities=target.authorities, address=address)
                )
        except TimeoutError:
            raise WebhookCallError(f'Post "{url}": context deadline exceeded') from None
        except HttpFailure as error:
            raise WebhookCallError(str(error)) from error
        except BadAuthorities as error:
            raise WebhookCallError(str(error), "could not get REST client") from error
        if not 200 <= answer.code < 300:
            raise WebhookCallError(_status_text(answer.code, answer.body))
        try:
            return decode_document(answer.body)
        except DecodeError as error:
            raise WebhookCallError(f"couldn't get version/kind; json parse error: {error}") from error

    def forget(self, target: WebhookTarget) -> None:
        """Drops what is kept for a webhook that is no longer configured."""
        self._slots.pop(target, None)


def _status_text(code: int, body: bytes) -> str:
    """What Go's client makes of a response that is no success."""
    text = body[:_MAX_TEXT_BYTES].decode(errors="replace").strip() or "unknown"
    if code in _MESSAGES:
        return _MESSAGES[code]
    if code in _TEXT_CODES:
        return text
    if code >= 500:
        return f"an error on the server ({go_quote(text)}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"
