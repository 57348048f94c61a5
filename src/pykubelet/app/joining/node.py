"""Joins a node to a cluster of `pykubelet up`: checks the cluster, and reads its settings.

Upstream: cmd/kubeadm/app/cmd/phases/join/kubelet.go
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import NamedTuple

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError, Forbidden, NotFound
from pykubelet.api.scheme import CONFIG_MAPS, NODES
from pykubelet.app.settings import CannotStart, ClusterSettings, JoinSettings, NodeSettings
from pykubelet.client.certificates.discovery import DiscoveryError, discover_authority
from pykubelet.client.certificates.store import write_secret
from pykubelet.client.interface import Client
from pykubelet.client.transport import PemSource, RestConfig, ServerTrust, UserCredentials, bearer
from pykubelet.controllers.bootstrap.objects import CONFIG, CONFIG_NAMESPACE

log = get_logger(__name__)

_FILE = "cluster.json"
"""The settings of the cluster as the node last read them, in its root directory."""


class ClusterConfig(NamedTuple):
    """The settings of a cluster that its nodes need."""

    dns: tuple[str, ...]
    domain: str
    cidr: IPv4Network
    has_service_proxy: bool

    @property
    def data(self) -> dict[str, str]:
        """The data of the config map."""
        return {
            "clusterDNS": ",".join(self.dns),
            "clusterDomain": self.domain,
            "clusterCIDR": str(self.cidr),
            "serviceProxy": str(self.has_service_proxy).lower(),
        }

    def of_node(self, settings: NodeSettings) -> NodeSettings:
        """The settings of a node in this cluster; the user's own come first."""
        return replace(
            settings,
            cluster_dns=settings.cluster_dns or self.dns,
            cluster_domain=self.domain,
            cluster_cidr=str(self.cidr),
        )


def cluster_config(settings: ClusterSettings, node: NodeSettings) -> ClusterConfig:
    """The settings of the cluster of `up`, with the node that runs in it."""
    return ClusterConfig(node.cluster_dns, node.cluster_domain, settings.cluster_cidr, settings.service_proxy)


def read_cluster_config(data: Mapping[str, str]) -> ClusterConfig:
    """The settings in the data of a config map; CannotStart if they are not complete."""
    try:
        dns = tuple(filter(None, data["clusterDNS"].split(",")))
        return ClusterConfig(
            dns, data["clusterDomain"], IPv4Network(data["clusterCIDR"]), data["serviceProxy"] == "true"
        )
    except (KeyError, ValueError, AttributeError) as error:
        raise CannotStart(
            f"the config map {CONFIG_NAMESPACE}/{CONFIG} of the cluster is incomplete: {error}"
        ) from error


async def fetch_cluster_config(client: Client, root: Path) -> ClusterConfig:
    """The settings of the cluster, as last read if the API server does not answer; CannotStart if it has none."""
    path = root / _FILE
    try:
        found = (await client.get(CONFIG_MAPS, CONFIG, namespace=CONFIG_NAMESPACE)).data
    except (NotFound, Forbidden) as error:
        raise CannotStart(f"this is not a cluster of `pykubelet up --bind`: {error}") from error
    except ApiError as error:
        try:
            kept: dict[str, str] = json.loads(await asyncio.to_thread(path.read_bytes))
        except (OSError, ValueError):
            raise CannotStart(f"the settings of the cluster cannot be read: {error}") from error
        log.warning("settings of the cluster not read, keeping the last ones", cause=str(error))
        return read_cluster_config(kept)
    config = read_cluster_config(found)
    try:
        await asyncio.to_thread(write_secret, path, json.dumps(config.data).encode())
    except OSError as error:
        log.warning("settings of the cluster not kept", path=path, cause=error.strerror)
    return config


async def bootstrap_access(join: JoinSettings, clock: Clock) -> RestConfig:
    """The access of a machine with a token, once the cluster's authority is checked; CannotStart if that fails."""
    if not join.token or not join.ca_cert_hashes:
        raise CannotStart("the node has no valid certificate: join with --token and --ca-cert-hash")
    try:
        authority = await discover_authority(join.server, join.ca_cert_hashes, clock=clock)
    except DiscoveryError as error:
        raise CannotStart(f"the node cannot join: {error}") from error
    ca = PemSource("the cluster's authority", data=authority)
    credentials = UserCredentials(authorization=bearer(join.token))
    return RestConfig(server=join.server, credentials=credentials, trust=ServerTrust(ca=ca))


async def check_name_is_free(client: Client, name: str) -> None:
    """CannotStart if the cluster has a node of this name, whose pods and certificate a second one would take over."""
    try:
        await client.get(NODES, name)
    except NotFound:
        return
    raise CannotStart(
        f'the cluster has a node "{name}" already: choose another --node-name, or delete that node if it is this machine'
    )
