"""What is known of a node when it is held against the CIS benchmark. Values only.

Writes down what a node is run with, for who checks it: `node.json` in its folder.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct

from pykubelet.apiserver.certs.certificates import write_private
from pykubelet.app.node_server import NodeListener
from pykubelet.app.runtimes import RuntimeParts
from pykubelet.app.settings import CannotStart, NodeSettings
from pykubelet.client.event_correlator import SPAM_BURST
from pykubelet.kubelet.server.server import IDLE_SECONDS

FILE = "node.json"


class CisFile(StrEnum):
    """Files that the benchmark speaks of, by what they are for."""

    SERVICE = "service file"
    KUBECONFIG = "kubeconfig"
    CLIENT_AUTHORITY = "certificate authority"
    SETTINGS = "settings of the node"
    KEY = "private key"


class FileFacts(Struct, frozen=True, kw_only=True):
    """A file: where it is, what others may do with it, whose it is."""

    path: str
    mode: int
    uid: int
    gid: int


class NodeRecord(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a node wrote down of itself when it started; nothing secret."""

    node_name: str
    runtime: str
    address: str = ""
    port: int = 0
    """Of its own API; 0: it has none."""
    kubeconfig: str = ""
    client_authority: str = ""
    """The file of whom it lets in by certificate, if that is one of its own."""
    has_client_authority: bool = False
    asks_api_server: bool = False
    """Whether an API server decides who may do what; else whoever is let in may do everything."""
    key: str = ""
    """The file of the private key that its API serves with."""
    rotate_certificates: bool = True
    idle_seconds: float = 0.0
    """After so long a stream over which nothing is said is ended; 0: never."""
    event_burst: int = 0
    """So many events about one object are told at once; 0: any number."""
    pod_max_pids: int = 0
    limits_pids: bool = False
    """Whether the runtime can enforce that."""
    seccomp_default: bool = False


class ServerFacts(Struct, frozen=True, kw_only=True):
    """How the node's API answers somebody without credentials."""

    anonymous_code: int
    weak_cipher: str = ""
    """A cipher that should not be, yet was agreed on; empty if none was."""
    valid_until: datetime


class CisFacts(Struct, frozen=True, kw_only=True):
    """The facts that the rules judge; `server` is None if the node's API did not answer."""

    record: NodeRecord
    files: Mapping[CisFile, FileFacts]
    server: ServerFacts | None
    owner: tuple[int, int]
    """User and group of the node's folder: beside root, whose its files may be."""
    hostname: str
    service_text: str = ""
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ListeningAddress:
    """What a node has found out about itself by the time it starts; without a listener it has no API of its own."""

    listener: NodeListener | None
    runtime: RuntimeParts
    has_server: bool


def node_record(settings: NodeSettings, opened: ListeningAddress) -> NodeRecord:
    """What there is to know."""
    listener, runtime = opened.listener, opened.runtime
    return NodeRecord(
        node_name=settings.node_name,
        runtime=runtime.name,
        address=listener.address if listener is not None else "",
        port=listener.port if listener is not None else 0,
        kubeconfig=str(settings.kubeconfig.absolute()) if settings.kubeconfig else "",
        client_authority=str(settings.client_ca.absolute()) if settings.client_ca else "",
        has_client_authority=listener is not None and listener.knows_clients,
        asks_api_server=opened.has_server,
        key=str(settings.root_dir / "pki/kubelet.key"),
        rotate_certificates=settings.rotate_certificates,
        idle_seconds=IDLE_SECONDS,
        event_burst=SPAM_BURST,
        pod_max_pids=settings.pod_max_pids,
        limits_pids=runtime.limits_pids,
        seccomp_default=settings.seccomp_default,
    )


def write_record(root: Path, record: NodeRecord) -> None:
    """Write it; CannotStart if that is not possible."""
    try:
        write_private(root / FILE, msgspec.json.encode(record))
    except OSError as error:
        raise CannotStart(f"{error.filename or root / FILE}: {error.strerror}") from error
