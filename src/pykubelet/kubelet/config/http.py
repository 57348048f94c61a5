"""The URL source: static pods from a URL, polled every 20 seconds.

Sends a SET of all its pods whenever a valid answer changes. Anything but a 200 with a valid body is a problem and
leaves the pods as they are: an empty body too, since an explicit empty list is a PodList without items. A 304 is
supported, redirects to another host are refused, and every document of the body counts. Bodies, header values and the
secret parts of the URL are never logged or reported.

Upstream: pkg/kubelet/config/http.go
"""

import asyncio
from collections.abc import Mapping, Sequence

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from pykubelet.aio.log import get_logger
from pykubelet.api.pods import PodUid
from pykubelet.client.manifests.last_known_good import ProblemBook, ProblemReporter
from pykubelet.client.manifests.scanner import MAX_MANIFEST_BYTES, problem_text
from pykubelet.kubelet.config.config import SourceChannel
from pykubelet.kubelet.config.file import PodProvenance, ProvenanceTrail, decode_pods, url_origin
from pykubelet.kubelet.config.merge import Pods
from pykubelet.kubelet.types import PodOperation

log = get_logger(__name__)

PERIOD_SECONDS = 20.0
TIMEOUT_SECONDS = 10.0
"""For one poll with redirects and body."""
REDIRECT_LIMIT = 10
REDIRECTS = frozenset({301, 302, 303, 307, 308})
LOUD_FAILURES = 3
"""How many failures in a row are logged at info level."""


class _FailedError(Exception):
    """A poll that returned no pods; the message contains no secrets."""


class UrlSource:
    """Polls one URL for static pods."""

    def __init__(
        self,
        *,
        url: str,
        node_name: str,
        channel: SourceChannel,
        problems: ProblemReporter,
        headers: Mapping[str, Sequence[str]] | None = None,
        period_seconds: float = PERIOD_SECONDS,
        allow_references: bool = False,
    ) -> None:
        """Each header may have several values. ValueError for anything but an HTTP URL."""
        self._url = URL(url)
        if self._url.scheme not in {"http", "https"} or not self._url.host:
            raise ValueError("the manifest URL needs the scheme http or https, and a host")
        self._origin = url_origin(url)
        self._where = str(self._url.with_user(None).with_query(None).with_fragment(None))
        self._headers = CIMultiDict((name, value) for name, values in (headers or {}).items() for value in values)
        self._node_name, self._allow_references = node_name, allow_references
        self._channel, self._period_seconds = channel, period_seconds
        self._book, self._provenance = ProblemBook(channel.source, problems), ProvenanceTrail(channel.trail)
        self._sent: Pods | None = None
        self._body: bytes | None = None
        self._pods: Pods = ()
        self._etag = ""
        self._refusal = ""
        self._failures = 0

    async def run(self, ready: asyncio.Event) -> None:
        """Poll until cancelled; `ready` is set after the first poll, whatever its result."""
        # A separate session without cookies: each poll is like the first.
        async with aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(), skip_auto_headers={"Accept", "Accept-Encoding"}
        ) as session:
            while True:
                await self._poll(session)
                ready.set()
                await asyncio.sleep(self._period_seconds)

    async def _poll(self, session: aiohttp.ClientSession) -> None:
        try:
            pods = await self._pods_now(session)
        except _FailedError as failure:
            self._note_failure(str(failure))
            return
        if pods != self._sent:
            await self._channel.send(PodOperation.SET, pods)
            self._sent = pods
        if self._failures:
            log.info("pods read from the URL again", url=self._where)
        self._failures = 0
        self._report("")

    def _note_failure(self, message: str) -> None:
        if self._failures < LOUD_FAILURES:
            log.info("pods not read from the URL", url=self._where, error=message)
        elif self._failures == LOUD_FAILURES:
            log.info(
                "pods not read from the URL; further failures are logged at debug level", url=self._where, error=message
            )
        else:
            log.debug("pods not read from the URL", url=self._where, error=message)
        self._failures += 1
        self._report(message)

    def _report(self, problem: str) -> None:
        self._book.update({self._where: problem} if problem else {})
        self._provenance.record(
            (PodUid(pod.metadata.uid), PodProvenance(self._where, problem)) for pod in self._sent or ()
        )

    async def _pods_now(self, session: aiohttp.ClientSession) -> Pods:
        """Poll the URL and decode its pods."""
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                body = await self._body_now(session)
        except TimeoutError:
            raise _FailedError(f"no answer within {TIMEOUT_SECONDS:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _FailedError(_reason(error)) from error
        if not body:
            raise _FailedError("zero-length data received; the pods known from it are kept")
        if body != self._body:
            await self._decode(body)
        if self._refusal:
            raise _FailedError(self._refusal)
        return self._pods

    async def _decode(self, body: bytes) -> None:
        decoded = await asyncio.to_thread(
            decode_pods, body, origin=self._origin, node_name=self._node_name, allow_references=self._allow_references
        )
        # One bad item invalidates the whole body, as upstream: half a list would remove the other half.
        self._body, self._pods, self._refusal = body, decoded.pods, problem_text(decoded.problems)

    async def _body_now(self, session: aiohttp.ClientSession) -> bytes:
        """Poll the body of the URL, following redirects."""
        url = self._url
        headers = self._headers.copy()
        if self._etag:
            headers["If-None-Match"] = self._etag
        for _ in range(REDIRECT_LIMIT):
            async with session.get(url, headers=headers, allow_redirects=False) as response:
                if response.status in REDIRECTS and "Location" in response.headers:
                    url = _redirected(url, response.headers["Location"])
                    continue
                if response.status == 304 and self._body is not None:
                    return self._body
                if response.status != 200:
                    raise _FailedError(f"{response.status} {response.reason or ''}".strip())
                body = await _read(response)
                self._etag = response.headers.get("ETag", "") if body else ""
                return body
        raise _FailedError(f"more than {REDIRECT_LIMIT} redirects")


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_chunked(2**16):
        body += chunk
        if len(body) >= MAX_MANIFEST_BYTES:
            raise _FailedError("the read limit is reached")
    return bytes(body)


def _redirected(url: URL, location: str) -> URL:
    """The target of a redirect: same host, and never from TLS to plain HTTP, because headers may contain secrets."""
    target = url.join(URL(location))
    if target.host != url.host or target.scheme not in {url.scheme, "https"}:
        raise _FailedError("a redirect to another host is refused")
    return target


def _reason(error: Exception) -> str:
    """Why a poll failed, without any part of the answer or of the headers."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect: {error.os_error.strerror or type(error.os_error).__name__}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
