"""The certificate manager: requests a certificate and renews it when most of its lifetime has passed.

Upstream: staging/src/k8s.io/client-go/util/certificate/certificate_manager.go
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
    RequestRefused,
    key_pem,
    new_key,
    request_certificate,
    satisfies,
    wait_for_certificate,
)
from pykubelet.client.certificates.store import CertificatePair, CertificateStore, CertificateStoreError
from pykubelet.client.interface import Client

log = get_logger(__name__)

# Nodes that joined together must not renew together for ever.
_EARLIEST, _SPREAD = 0.7, 0.2
SIGNING_SECONDS = 15 * 60.0
"""The time limit of one request; after that a new one is created."""
_BACKOFF = Backoff(first_seconds=2.0, limit_seconds=32.0, jitter=0.1)
# Clocks are adjusted and machines sleep, so long waits are re-evaluated from time to time.
_LONGEST_SLEEP_SECONDS = 3600.0


def rotation_at(certificate: x509.Certificate, share: float) -> datetime:
    """The renewal time: between 70 and 90 % of the lifetime, chosen by a share between 0 and 1."""
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return start + (end - start) * (_EARLIEST + _SPREAD * share)


def wait_seconds(
    certificate: x509.Certificate | None, template: CertificateTemplate, now: datetime, share: float
) -> float:
    """The time until renewal; 0 if there is no certificate or it does not satisfy the template."""
    if certificate is None or not satisfies(certificate, template):
        return 0.0
    return max((rotation_at(certificate, share) - now).total_seconds(), 0.0)


def lasts_longer(certificate: x509.Certificate, other: x509.Certificate | None) -> bool:
    """Whether a certificate expires later than another one, if there is one."""
    return other is None or certificate.not_valid_after_utc > other.not_valid_after_utc


def is_valid(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether a certificate has not expired. A start in the future is a matter of clocks."""
    return now <= certificate.not_valid_after_utc


class CertificateManager:
    """Keeps one certificate valid. `held` is one that its user has from elsewhere.

    `changed` is called with the file of a better pair: at the start, and after each renewal.
    """

    def __init__(
        self,
        *,
        client: Client,
        template: CertificateTemplate,
        files: CertificateStore,
        clock: Clock,
        changed: Callable[[Path], None] = lambda _path: None,
        held: x509.Certificate | None = None,
        rand: Random = system_random,
    ) -> None:
        self._client, self._template, self._files, self._clock = client, template, files, clock
        self._changed, self._held, self._rand = changed, held, rand
        self._log = log.bind(signer=template.signer)

    async def run(self, ready: asyncio.Event) -> None:
        """Renew until cancelled; sets `ready` once there is a certificate that satisfies the template."""
        certificate, retries = await self._stored(), Retries(_BACKOFF, self._rand)
        if certificate is not None and lasts_longer(certificate, self._held):
            self._changed(self._files.current_path)
        else:
            certificate = self._held
        share = self._rand()
        while True:
            wait = wait_seconds(certificate, self._template, self._clock.now(), share)
            if wait > 0:
                ready.set()
                await asyncio.sleep(min(wait, _LONGEST_SLEEP_SECONDS))
                continue
            try:
                certificate = (await self._renewed()).certificate
            except (ApiError, RequestRefused, CertificateStoreError, TimeoutError) as error:
                delay = retries.next_delay_seconds()
                why = error if str(error) else "it was not signed in time"
                self._log.warning("certificate not renewed, trying again", error=why, seconds=round(delay))
                await asyncio.sleep(delay)
                continue
            share = self._rand()
            retries.reset()
            self._changed(self._files.current_path)
            self._log.info("new certificate in use", expires=certificate.not_valid_after_utc)

    async def _stored(self) -> x509.Certificate | None:
        try:
            pair = await asyncio.to_thread(self._files.current)
            return pair.certificate if pair else None
        except CertificateStoreError as error:
            self._log.warning("requesting a certificate", error=error)
            return None

    async def _renewed(self) -> CertificatePair:
        """Request a certificate with a new key, so that a leaked old key becomes useless."""
        key = new_key()
        request = await request_certificate(self._client, self._template, key)
        async with asyncio.timeout(SIGNING_SECONDS):
            pem = await wait_for_certificate(self._client, request)
        return await asyncio.to_thread(self._files.replace, pem, key_pem(key), now=self._clock.now())
