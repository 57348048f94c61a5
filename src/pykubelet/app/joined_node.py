"""Joins a node to a cluster of `pykubelet up`: checks the cluster, and what the node does besides pods.

Upstream: cmd/kubeadm/app/cmd/phases/join/kubelet.go
"""

from pykubelet.aio.clock import Clock
from pykubelet.api.errors import NotFound
from pykubelet.api.scheme import NODES
from pykubelet.app.settings import CannotStart, ClusterSettings, JoinSettings, NodeSettings
from pykubelet.client.certificates.discovery import DiscoveryError, discover_authority
from pykubelet.client.interface import Client
from pykubelet.client.transport import PemSource, RestConfig, ServerTrust, UserCredentials, bearer


def cluster_config(settings: ClusterSettings, node: NodeSettings) -> dict[str, str]:
    """The settings of a cluster that its nodes read: addresses of the cluster DNS, and the range of pods."""
    return {
        "clusterDNS": ",".join(node.cluster_dns),
        "clusterDomain": node.cluster_domain,
        "clusterCIDR": str(settings.cluster_cidr),
        "serviceProxy": str(settings.service_proxy).lower(),
    }


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
