"""What every request passes before anything is done for it: who asks, and may they.

Upstream: InstallAuthFilter in pkg/kubelet/server/server.go. There are no anonymous requests.
"""

from typing import Protocol

from pykubelet.aio.log import get_logger
from pykubelet.nodeapi.access.attributes import attributes_of
from pykubelet.nodeapi.access.callers import Caller, caller_of_certificate
from pykubelet.nodeapi.access.reviews import ReviewFailed
from pykubelet.nodeapi.replies import Refused

log = get_logger(__name__)


class Judge(Protocol):
    """Knows tokens and rights."""

    async def caller_of_token(self, token: str) -> Caller | None:
        """Whose token it is; None if nobody's. ReviewFailed if that cannot be found out."""

    async def is_allowed(self, caller: Caller, verb: str, subresource: str) -> bool:
        """Whether somebody may do that to a subresource of this node. ReviewFailed if that cannot be found out."""


class OnlyCertificates:
    """Without an API server: whoever has a certificate of the authority may do everything, nobody else anything."""

    async def caller_of_token(self, _token: str) -> Caller | None:
        return None

    async def is_allowed(self, _caller: Caller, _verb: str, _subresource: str) -> bool:
        return True


class Gate:
    """Lets requests pass, or refuses them."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    async def check(self, method: str, path: str, authorization: str, certificate: bytes | None) -> Caller:
        """Who asks; Refused unless they may. `certificate` is the client's, in DER, as far as TLS has checked it."""
        caller = await self._caller(authorization, certificate)
        if caller is None:
            raise Refused(401, "Unauthorized")
        needed = attributes_of(method, path)
        for subresource in needed.subresources:
            what = f"user={caller.name}, verb={needed.verb}, resource=nodes"
            try:
                if await self._judge.is_allowed(caller, needed.verb, subresource):
                    return caller
            except ReviewFailed as error:
                log.warning("authorization failed", cause=str(error), user=caller.name, subresource=subresource)
                raise Refused(500, f"Authorization error ({what}, subresource={subresource})") from error
        raise Refused(403, f"Forbidden ({what}, subresource(s)=[{' '.join(needed.subresources)}])\n")

    async def _caller(self, authorization: str, certificate: bytes | None) -> Caller | None:
        if certificate is not None and (caller := caller_of_certificate(certificate)):
            return caller
        scheme, _, token = authorization.strip().partition(" ")
        token = token.strip()
        # What is no text cannot be asked about.
        if scheme.lower() != "bearer" or not token or not token.isascii():
            return None
        try:
            return await self._judge.caller_of_token(token)
        except ReviewFailed as error:
            log.warning("authentication failed", cause=str(error))
            return None
