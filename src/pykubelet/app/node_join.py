"""How its API server knows a node: by a bootstrap token once, by its certificate from then on.

Upstream: cmd/kubelet/app/server.go (buildKubeletClientConfig)
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from cryptography import x509

from pykubelet.aio.beside import beside
from pykubelet.aio.clock import Clock
from pykubelet.api.errors import ApiError
from pykubelet.app.kubeconfigs import access_of
from pykubelet.app.node_door import ServerSeen
from pykubelet.app.running import Runner, running, with_event
from pykubelet.app.settings import CannotStart, NodeSettings
from pykubelet.kube.access import Access
from pykubelet.kube.certificates.bootstrap import bootstrap, needs_bootstrap
from pykubelet.kube.certificates.keeper import CertificateKeeper
from pykubelet.kube.certificates.outcome import RequestRefused
from pykubelet.kube.certificates.pair_files import PairError, PairFiles
from pykubelet.kube.certificates.wish import client_wish, satisfies
from pykubelet.kube.credential_error import CredentialError
from pykubelet.kube.credentials import RenewedPair
from pykubelet.kube.request_counts import RequestCounts
from pykubelet.kube.rest import RestClient


class Joined(NamedTuple):
    """A node's API server, and the way to it."""

    client: RestClient
    server: ServerSeen
    is_node: bool
    """Whether the API server knows it as the node, which may do less than others."""
    requests: RequestCounts


async def has_joined(settings: NodeSettings, kubeconfig: Path, *, clock: Clock, stop: asyncio.Event) -> bool:
    """Get the node a kubeconfig with a certificate if it has none; False if it is told to stop before that.

    CannotStart if it will not get one.
    """
    if settings.bootstrap_kubeconfig is None or not await needs_bootstrap(kubeconfig, clock):
        return True
    access = access_of(settings.bootstrap_kubeconfig, clock)
    try:
        async with asyncio.timeout(None) as until_told, beside(_end(until_told, stop), "told to stop"):
            await _bootstrap(settings, kubeconfig, access, clock)
    except TimeoutError as error:
        if stop.is_set():
            return False
        raise CannotStart("nobody has signed the node's certificate request; approve it and start again") from error
    except (ApiError, RequestRefused, PairError) as error:
        raise CannotStart(f"the node cannot join with {settings.bootstrap_kubeconfig}: {error}") from error
    return True


async def _bootstrap(settings: NodeSettings, kubeconfig: Path, access: Access, clock: Clock) -> None:
    name = settings.node_name
    files = PairFiles(settings.root_dir / "pki", client_wish(name).file_name)
    async with RestClient(access, clock=clock) as client:
        await bootstrap(client, access=access, node_name=name, kubeconfig=kubeconfig, files=files, clock=clock)


async def _end(scope: asyncio.Timeout, stop: asyncio.Event) -> None:
    await stop.wait()
    scope.reschedule(0.0)


@asynccontextmanager
async def connected(settings: NodeSettings, kubeconfig: Path, *, clock: Clock) -> AsyncIterator[Joined]:
    """The API server of a kubeconfig, for as long as the context lasts; the node's certificate is renewed meanwhile."""
    access = access_of(kubeconfig, clock)
    wish, held = client_wish(settings.node_name), await _certificate(access)
    renewed = RenewedPair(access.credentials, clock=clock)
    async with RestClient(replace(access, credentials=renewed), clock=clock) as client:
        runners: dict[str, Runner] = {}
        # Somebody else's certificate, an administrator's say, is not for the node to renew.
        is_node = held is not None and satisfies(held, wish)
        if settings.rotate_certificates and is_node:
            files = PairFiles(settings.root_dir / "pki", wish.file_name)
            keeper = CertificateKeeper(
                client=client, wish=wish, files=files, clock=clock, changed=renewed.use, held=held
            )
            runners["client certificate"] = with_event(keeper.run)
        async with running(runners):
            yield Joined(client, ServerSeen(access.server, access.trust.ca), is_node, client.counts)


async def _certificate(access: Access) -> x509.Certificate | None:
    """The client certificate that a kubeconfig shows; None if it shows none that can be read."""
    try:
        pair = (await access.credentials.current()).pair
        return x509.load_pem_x509_certificate(pair.certificate) if pair else None
    except (CredentialError, ValueError):
        # The client says so with each request.
        return None
