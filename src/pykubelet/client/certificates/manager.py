"""Keeps a certificate valid: asks for the first one, and for the next when most of its life is over.

In: a wish, the files of the pair, and a client. Out: the newest pair in the files; whoever uses it is told.

Upstream: client-go/util/certificate/certificate_manager.go

When a certificate is due to be replaced (pure).

Upstream: client-go/util/certificate/certificate_manager.go (nextRotationDeadline, jitteryDuration)
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from cryptography import x509

from pykubelet.aio.backoff import Backoff, Random, Retries, system_random
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError
from pykubelet.client.certificates.csr import (
    CertificateTemplate,
    CsrClient,
    RequestRefused,
    key_pem,
    new_key,
    request_certificate,
    satisfies,
    wait_for_certificate,
)
from pykubelet.client.certificates.store import CertificatePair, CertificateStore, CertificateStoreError

# Nodes that joined together shall not all ask at once for the rest of their lives.
_EARLIEST, _SPREAD = 0.7, 0.2


def rotation_at(certificate: x509.Certificate, share: float) -> datetime:
    """The time between 70 and 90 % of the certificate's life that a share between 0 and 1 stands for."""
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return start + (end - start) * (_EARLIEST + _SPREAD * share)


def wait_seconds(certificate: x509.Certificate | None, wish: CertificateTemplate, now: datetime, share: float) -> float:
    """How long a certificate will do; 0 if there is none, or not the one that is wished for."""
    if certificate is None or not satisfies(certificate, wish):
        return 0.0
    return max((rotation_at(certificate, share) - now).total_seconds(), 0.0)


def lasts_longer(certificate: x509.Certificate, other: x509.Certificate | None) -> bool:
    """Whether it is the better one of two."""
    return other is None or certificate.not_valid_after_utc > other.not_valid_after_utc


def is_valid(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether it is not over yet. One that has not begun is a matter of clocks."""
    return now <= certificate.not_valid_after_utc


log = get_logger(__name__)

SIGNING_SECONDS = 15 * 60.0
"""How long one request is waited for; after that a new one is made."""
_BACKOFF = Backoff(first_seconds=2.0, limit_seconds=32.0, jitter=0.1)
# Clocks are put right and machines sleep: a year's wait is looked at again now and then.
_LONGEST_SLEEP_SECONDS = 3600.0


class CertificateManager:
    """One certificate. `held` is one that its user has from elsewhere.

    `changed` is called with the file of a pair that is better than that: at the start, and after each renewal.
    """

    def __init__(
        self,
        *,
        client: CsrClient,
        wish: CertificateTemplate,
        files: CertificateStore,
        clock: Clock,
        changed: Callable[[Path], None] = lambda _path: None,
        held: x509.Certificate | None = None,
        rand: Random = system_random,
    ) -> None:
        self._client, self._wish, self._files, self._clock = client, wish, files, clock
        self._changed, self._held, self._rand = changed, held, rand
        self._log = log.bind(signer=wish.signer)

    async def run(self, ready: asyncio.Event) -> None:
        """Until cancelled; `ready` is set once there is a certificate as wished for."""
        certificate, retries = await self._stored(), Retries(_BACKOFF, self._rand)
        if certificate is not None and lasts_longer(certificate, self._held):
            self._changed(self._files.current_path)
        else:
            certificate = self._held
        share = self._rand()
        while True:
            wait = wait_seconds(certificate, self._wish, self._clock.now(), share)
            if wait > 0:
                ready.set()
                await asyncio.sleep(min(wait, _LONGEST_SLEEP_SECONDS))
                continue
            try:
                certificate = (await self._renewed()).certificate
            except (ApiError, RequestRefused, CertificateStoreError, TimeoutError) as error:
                delay = retries.next_delay_seconds()
                why = error if str(error) else "it was not signed in time"
                self._log.warning("no new certificate; trying again", error=why, seconds=round(delay))
                await asyncio.sleep(delay)
                continue
            share = self._rand()
            retries.reset()
            self._changed(self._files.current_path)
            self._log.info("there is a new certificate", expires=certificate.not_valid_after_utc)

    async def _stored(self) -> x509.Certificate | None:
        try:
            pair = await asyncio.to_thread(self._files.current)
            return pair.certificate if pair else None
        except CertificateStoreError as error:
            self._log.warning("the certificate is asked for anew", error=error)
            return None

    async def _renewed(self) -> CertificatePair:
        """A pair with a fresh key: an old key that got about is of no use any more."""
        key = new_key()
        request = await request_certificate(self._client, self._wish, key)
        async with asyncio.timeout(SIGNING_SECONDS):
            pem = await wait_for_certificate(self._client, request)
        return await asyncio.to_thread(self._files.replace, pem, key_pem(key), now=self._clock.now())
