"""Lets nodes of other machines join: writes the objects they need and makes the command that joins.

Upstream: cmd/kubeadm/app/cmd/token.go, cmd/kubeadm/app/cmd/util/join.go
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

from cryptography import x509

from pykubelet.aio.clock import Clock, SystemClock
from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.scheme import CONFIG_MAPS, SECRETS, as_documents
from pykubelet.app.apiserver import RunningApiServer
from pykubelet.app.joining.node import ClusterConfig
from pykubelet.app.program import Say, find_rest_config
from pykubelet.app.settings import CannotStart, ClusterSettings
from pykubelet.client.certificates.discovery import (
    CLUSTER_INFO,
    CLUSTER_INFO_KEY,
    CLUSTER_INFO_NAMESPACE,
    ClusterInfo,
    DiscoveryError,
    cluster_in,
    public_key_pin,
)
from pykubelet.client.interface import Client, ControllerClient
from pykubelet.client.rest import RestClient
from pykubelet.controllers.bootstrap.objects import join_objects
from pykubelet.controllers.bootstrap.tokencleaner import TokenCleaner
from pykubelet.httpserver.listener import is_loopback, is_unspecified
from pykubelet.kinds.bootstrap_token import SECRET_NAMESPACE, BootstrapToken, token_secret
from pykubelet.podnetwork.node_address import node_address

TOKEN_SECONDS = 24 * 3600
"""How long a token is valid unless another time is chosen."""
_MANAGER = "pykubelet"


async def open_for_nodes(client: ControllerClient, cluster: ClusterInfo, config: Mapping[str, str]) -> None:
    """Write the objects with which nodes join; `config` are the settings of the cluster that they read."""
    for found in join_objects(cluster.server, cluster.authority, config):
        await client.apply(found.resource, found.document, namespace=found.namespace, field_manager=_MANAGER)


async def close_for_nodes(client: Client) -> None:
    """Withdraw the cluster's address, which nodes cannot reach any more; tokens and rights stay."""
    with suppress(NotFound):
        await client.delete(CONFIG_MAPS, CLUSTER_INFO, namespace=CLUSTER_INFO_NAMESPACE)


async def create_token(client: Client, clock: Clock, *, seconds: int, description: str) -> BootstrapToken:
    """Create a token with which nodes may join for some time."""
    token = BootstrapToken.generate()
    body = token_secret(token, expires=clock.now() + timedelta(seconds=seconds), description=description)
    await client.create(as_documents(SECRETS.resource), body, namespace=SECRET_NAMESPACE)
    return token


@asynccontextmanager
async def open_to_nodes(
    settings: ClusterSettings, served: RunningApiServer, config: ClusterConfig, *, clock: Clock, say: Say
) -> AsyncIterator[None]:
    """Take nodes of other machines while the context lasts, if they can reach the API server, and print how they join.

    The command has a token and is therefore shown on a terminal only, never in a log.
    """
    client = served.client
    if is_loopback(settings.bind):
        await close_for_nodes(client)
        yield
        return
    host = node_address() if is_unspecified(settings.bind) else settings.bind
    port = served.url.rpartition(":")[2]
    cluster = ClusterInfo(f"https://{host}:{port}" if host else served.url, served.client_authority)
    await open_for_nodes(client, cluster, config.data)
    cleaner = TokenCleaner(client=client, clock=clock)
    async with running({"bootstrap tokens": with_ready_event(cleaner.run)}):
        if settings.show_join_command:
            token = await create_token(client, clock, seconds=TOKEN_SECONDS, description="pykubelet up")
            say("within 24 hours, nodes of other machines join with:")
            say(f"  {join_command(cluster, token)}")
        else:
            say("nodes of other machines join with what `pykubelet token create --print-join-command` prints")
        yield


def join_command(cluster: ClusterInfo, token: BootstrapToken) -> str:
    """The command with which a machine joins; it has the token in it."""
    pins = [public_key_pin(each) for each in x509.load_pem_x509_certificates(cluster.authority)]
    hashes = " ".join(f"--ca-cert-hash {pin}" for pin in pins)
    return f"pykubelet node --join {cluster.server} --token {token.text} {hashes}"


def run_token_create(kubeconfig: Path | None, *, seconds: int, with_command: bool, say: Say) -> None:
    """Create a token and print it, or the command that joins with it. CannotStart if that is impossible."""

    async def main() -> str:
        clock = SystemClock()
        async with RestClient(find_rest_config(kubeconfig, clock), clock=clock) as client:
            cluster = await _cluster(client) if with_command else None
            token = await create_token(client, clock, seconds=seconds, description="pykubelet token create")
            return token.text if cluster is None else join_command(cluster, token)

    try:
        say(asyncio.run(main()))
    except (ApiError, DiscoveryError) as error:
        raise CannotStart(str(error)) from error


async def _cluster(client: Client) -> ClusterInfo:
    try:
        found = await client.get(CONFIG_MAPS, CLUSTER_INFO, namespace=CLUSTER_INFO_NAMESPACE)
    except NotFound as error:
        raise CannotStart("nodes of other machines cannot join: start the cluster with `up --bind ADDRESS`") from error
    return cluster_in(found.data.get(CLUSTER_INFO_KEY, ""))
