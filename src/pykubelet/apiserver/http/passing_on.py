"""Passes a request on to a node or pod; once that answers, the connection is taken from HTTP.

In: a request that somebody else answers. Out: nothing more over HTTP; the bytes of the answer are theirs, and the
connection ends with it. As long as nothing is sent, whatever goes wrong is an ApiError.

Upstream: pkg/registry/core/pod/rest/{log,subresources}.go, tryUpgrade in
staging/src/k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go
"""

from collections.abc import Awaitable, Callable
from contextlib import closing

from aiohttp import web

from pykubelet.aio.http_serving import AlreadyAnswered, take_over
from pykubelet.api.errors import ApiError, BadRequest
from pykubelet.api.go_query import pairs
from pykubelet.apiserver.call import Call
from pykubelet.apiserver.http.targets import read_target
from pykubelet.apiserver.proxy.heads import answer_code, asked_upgrade, request_head
from pykubelet.apiserver.proxy.node_answers import MOST_BYTES, is_refusal, log_refusal
from pykubelet.apiserver.proxy.node_proxy import UPGRADED, NodeProxy, Pipe, short_text, splice

ReadBody = Callable[[web.BaseRequest], Awaitable[bytes]]


class PassingOn:
    """Answers requests by passing them on."""

    def __init__(self, proxy: NodeProxy, read_body: ReadBody) -> None:
        self._proxy, self._read_body = proxy, read_body

    async def connect(self, call: Call, rest: str, request: web.BaseRequest) -> web.StreamResponse:
        """Connect the caller to where the call leads; raises ApiError as long as nothing is sent."""
        raw_query = read_target(request.raw_path).raw_query
        target = self._proxy.target(call, pairs(raw_query), rest, raw_query)
        if target is None:
            return web.Response(status=204)
        is_log = call.subresource == "log"
        # A log is asked for by us; what is said about it between the caller and us is not the node's concern.
        headers = () if is_log else tuple(request.headers.items())
        upgrades = bool(asked_upgrade(headers))
        if call.subresource in UPGRADED and not upgrades:
            raise BadRequest("Upgrade request required")
        body = await self._read_body(request)
        server = await self._proxy.open(target)
        with closing(server.writer):
            head = await self._proxy.ask(
                target, server, request_head(target, request.method, headers, len(body)) + body
            )
            code = answer_code(head)
            if is_log and is_refusal(code):
                raise log_refusal(code, await short_text(server.reader, head, MOST_BYTES), call.name)
            if upgrades and code != 101 and code < 400:
                raise ApiError(f"invalid upgrade response: status code {code}")
            await splice(Pipe(*take_over(request)), server, head, changed=upgrades and code == 101)
        return AlreadyAnswered(request, code=code)
