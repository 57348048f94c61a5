"""Client certificates that last two hours: issued, renewed before they expire, and their requests cleaned up."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from certificates import a_key, an_authority, certificate_pem
from client_faults import Outage
from controller_rig import Bench
from pykubelet.aio.tasks import background_task, running, with_ready_event
from pykubelet.api.generated.certificates import CertificateSigningRequest
from pykubelet.api.schema import CERTIFICATE_SIGNING_REQUESTS as CSRS
from pykubelet.api.scheme import CERTIFICATE_SIGNING_REQUESTS
from pykubelet.client.certificates.csr import client_template, key_pem
from pykubelet.client.certificates.manager import CertificateManager
from pykubelet.client.certificates.store import CertificatePair, CertificateStore
from pykubelet.client.interface import Client, PatchType
from pykubelet.controllers.certificates.certificate_controller import CertificateCleaner, status_patch, with_condition
from pykubelet.controllers.certificates.signer import CertificateSigner
from pykubelet.testing.local_api import local_api
from pykubelet.testing.virtual_time import VirtualClock

TEMPLATE = client_template("n1")
HOUR = 3600.0
CLOCK = VirtualClock()


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with local_api(tmp_path) as api:
        yield Bench(api.client)


class Person:
    """Approves or denies all certificate requests within a minute."""

    def __init__(self, bench: Bench, answer: str = "Approved") -> None:
        self._bench, self.answer = bench, answer
        self.decided: list[str] = []

    async def run(self) -> None:
        while True:
            for request in (await self._bench.client.list(CERTIFICATE_SIGNING_REQUESTS)).items:
                if not request.status.conditions and self.answer:
                    await self._decide(request)
            await asyncio.sleep(60)

    async def _decide(self, request: CertificateSigningRequest) -> None:
        conditions = with_condition(request, self.answer, "Because", "")
        body, name = status_patch(request, conditions=conditions), request.metadata.name
        await self._bench.client.patch(
            CERTIFICATE_SIGNING_REQUESTS, name, body, patch_type=PatchType.MERGE, subresource="approval"
        )
        self.decided.append(name)


@asynccontextmanager
async def deciding(bench: Bench, person: Person) -> AsyncIterator[None]:
    """Runs the approving person with our certificate signer and cleaner."""
    requests, client = bench.informers.objects(CERTIFICATE_SIGNING_REQUESTS), bench.client
    signer = CertificateSigner(
        client=client, requests=requests, authority=an_authority(), clock=CLOCK, longest=timedelta(hours=2)
    )
    cleaner = CertificateCleaner(client=client, requests=requests, clock=CLOCK)
    async with bench.running(signer, cleaner), background_task(person.run(), "person"):
        yield


class Node:
    """Runs a certificate manager and counts its reports of a changed certificate file."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.files, self.told = CertificateStore(folder / "pki", TEMPLATE.file_name), 0
        self._keeper = CertificateManager(
            client=client, template=TEMPLATE, files=self.files, clock=CLOCK, changed=self._changed, rand=lambda: 0.5
        )

    def _changed(self, path: Path) -> None:
        assert path == self.files.current_path
        self.told += 1

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Event]:
        ready = asyncio.Event()
        async with running({"certificate": with_ready_event(self._keeper.run, ready)}):
            yield ready

    def pair(self) -> CertificatePair:
        found = self.files.current()
        assert found is not None
        return found


async def test_certificate_is_renewed_before_it_is_over(bench: Bench, tmp_path: Path) -> None:
    """Renewal comes at 80 % of the lifetime, with a new key each time. The cleaner deletes old requests."""
    node, person, keys = Node(bench.client, tmp_path), Person(bench), set()
    async with deciding(bench, person), node.running() as ready:
        await ready.wait()
        for _ in range(21):
            await asyncio.sleep(HOUR / 6)
            assert node.pair().certificate.not_valid_after_utc > CLOCK.now() + timedelta(minutes=20)
            keys.add(node.pair().key.public_key().public_numbers())
    # Three and a half hours, one request about every 95 minutes.
    assert len(person.decided) == node.told == 3
    assert len(keys) == 3
    # The others were approved more than an hour ago.
    assert len(await bench.all(CSRS)) == 1


async def test_stored_certificate_is_used_again(bench: Bench, tmp_path: Path) -> None:
    """A restarted node requests no new certificate while the stored one is valid."""
    node, person = Node(bench.client, tmp_path), Person(bench)
    node.files.replace(certificate_pem(TEMPLATE, at=CLOCK.now()), key_pem(a_key()), now=CLOCK.now())
    async with deciding(bench, person), node.running() as ready:
        await ready.wait()
        await asyncio.sleep(3 * HOUR)
    assert (node.told, person.decided) == (1, [])


async def test_denied_request_is_made_anew_until_it_is_approved(bench: Bench, tmp_path: Path) -> None:
    """A node without a certificate keeps requesting one; denied requests are deleted after an hour."""
    node, person = Node(bench.client, tmp_path), Person(bench, "Denied")
    async with deciding(bench, person), node.running() as ready:
        await asyncio.sleep(300)
        assert not ready.is_set()
        denied = len(person.decided)
        assert denied >= 3
        person.answer = "Approved"
        await asyncio.sleep(180)
        assert ready.is_set()
        await asyncio.sleep(1.2 * HOUR)
    assert node.told == 1
    assert await bench.all(CSRS) == []


async def test_undecided_request_is_replaced_after_15_minutes(bench: Bench, tmp_path: Path) -> None:
    node, person = Node(bench.client, tmp_path), Person(bench, "")
    async with deciding(bench, person), node.running() as ready:
        await asyncio.sleep(14 * 60)
        assert len(await bench.all(CSRS)) == 1
        await asyncio.sleep(5 * 60)
        assert len(await bench.all(CSRS)) == 2
        person.answer = "Approved"
        await asyncio.sleep(120)
        assert ready.is_set()


async def test_outage_is_waited_out(bench: Bench, tmp_path: Path) -> None:
    """The server is unreachable when the certificate is needed, and again while the request is pending."""
    outage = Outage(bench.client, is_down=True)
    node, person = Node(outage, tmp_path), Person(bench, "")
    async with deciding(bench, person), node.running() as ready:
        await asyncio.sleep(120)
        outage.end()
        await asyncio.sleep(60)
        assert len(await bench.all(CSRS)) == 1
        outage.begin()
        person.answer = "Approved"
        await asyncio.sleep(120)
        assert not ready.is_set()
        outage.end()
        await asyncio.sleep(30)
        assert ready.is_set()
    assert len(person.decided) == 1
