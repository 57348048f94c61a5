"""Finds the authority of a cluster that a machine joins, and checks it by the hash of its public key.

The authority is fetched from the config map `cluster-info` without trust in the server: no credential is sent, and of what
it answers only certificates are used whose public key has one of the given hashes. Everything after that is verified.

Upstream: cmd/kubeadm/app/discovery/token/token.go, cmd/kubeadm/app/util/pubkeypin/pubkeypin.go
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Collection
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pykubelet.aio.clock import Clock
from pykubelet.api.errors import ApiError, Forbidden, NotFound, Unauthorized
from pykubelet.api.scheme import CONFIG_MAPS
from pykubelet.api.yaml.parser import YamlError
from pykubelet.api.yaml.read import read_yaml
from pykubelet.client.rest import RestClient
from pykubelet.client.transport import RestConfig, ServerTrust, UserCredentials

_PIN = re.compile(r"sha256:[0-9a-f]{64}")
CLUSTER_INFO, CLUSTER_INFO_NAMESPACE, CLUSTER_INFO_KEY = "cluster-info", "kube-public", "kubeconfig"
"""The config map with the cluster's address and authority, and its key."""
_PLACE = f"{CLUSTER_INFO_NAMESPACE}/{CLUSTER_INFO}"


class DiscoveryError(Exception):
    """The cluster cannot be joined; the message says why."""


def is_pin(text: str) -> bool:
    """Whether a text is the hash of a public key, `sha256:` and 64 hexadecimal digits."""
    return bool(_PIN.fullmatch(text.lower()))


def public_key_pin(certificate: x509.Certificate) -> str:
    """The hash of a certificate's public key (its SubjectPublicKeyInfo), as kubeadm prints it."""
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return f"sha256:{hashlib.sha256(key).hexdigest()}"


def pinned_certificates(bundle: bytes, pins: Collection[str]) -> bytes:
    """The certificates of a bundle (PEM) whose public keys have one of the hashes; DiscoveryError if there are none."""
    try:
        found = x509.load_pem_x509_certificates(bundle)
    except ValueError as error:
        raise DiscoveryError("the cluster's authority is not a certificate") from error
    wanted = {pin.lower() for pin in pins}
    # The others are left out: a program that answers in the place of the server could have added one.
    chosen = [each for each in found if public_key_pin(each) in wanted]
    if not chosen:
        hashes = ", ".join(map(public_key_pin, found))
        raise DiscoveryError(f"the cluster's authority has the hash {hashes}, not that of --ca-cert-hash")
    return b"".join(each.public_bytes(Encoding.PEM) for each in chosen)


class ClusterInfo(NamedTuple):
    """The URL of a cluster, and its authority (PEM)."""

    server: str
    authority: bytes


def cluster_in(kubeconfig: str) -> ClusterInfo:
    """The cluster in a kubeconfig; DiscoveryError if there is none."""
    try:
        (cluster,) = read_yaml(kubeconfig.encode())["clusters"]
        authority = base64.b64decode(cluster["cluster"]["certificate-authority-data"], validate=True)
        return ClusterInfo(str(cluster["cluster"]["server"]), authority)
    except (YamlError, LookupError, TypeError, ValueError, binascii.Error) as error:
        raise DiscoveryError(f"the config map {_PLACE} has no kubeconfig of one cluster") from error


async def discover_authority(server: str, pins: Collection[str], *, clock: Clock) -> bytes:
    """The authority (PEM) of the cluster at a URL; DiscoveryError if it cannot be read or has another public key."""
    unverified = RestConfig(server=server, credentials=UserCredentials(), trust=ServerTrust(insecure=True))
    try:
        async with RestClient(unverified, clock=clock) as client:
            found = await client.get(CONFIG_MAPS, CLUSTER_INFO, namespace=CLUSTER_INFO_NAMESPACE)
    except (NotFound, Forbidden, Unauthorized) as error:
        raise DiscoveryError(f"the cluster at {server} takes no nodes: it has no readable {_PLACE}") from error
    except ApiError as error:
        raise DiscoveryError(str(error)) from error
    return pinned_certificates(cluster_in(found.data.get(CLUSTER_INFO_KEY, "")).authority, pins)
