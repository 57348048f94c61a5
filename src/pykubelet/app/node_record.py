"""Writes `node.json`, the settings of a running node, for `pykubelet check`, and the facts it judges."""

from collections.abc import Mapping
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
    """The files of the CIS benchmark, by purpose."""

    SERVICE = "service file"
    KUBECONFIG = "kubeconfig"
    CLIENT_AUTHORITY = "certificate authority"
    SETTINGS = "settings of the node"
    KEY = "private key"


class FileFacts(Struct, frozen=True, kw_only=True):
    """The path, mode and owner of a file."""

    path: str
    mode: int
    uid: int
    gid: int


class NodeRecord(Struct, frozen=True, kw_only=True, rename="camel"):
    """The settings a node started with; nothing secret."""

    node_name: str
    runtime: str
    address: str = ""
    port: int = 0
    """The port of the kubelet's API; 0 if it has none."""
    kubeconfig: str = ""
    client_authority: str = ""
    """The file with the authority of client certificates, if it is the node's own."""
    has_client_authority: bool = False
    asks_api_server: bool = False
    """Whether the API server authorizes requests; else every authenticated client may do everything."""
    key: str = ""
    """The file with the private key of the kubelet's API."""
    rotate_certificates: bool = True
    idle_seconds: float = 0.0
    """After this time an idle stream is closed; 0: never."""
    event_burst: int = 0
    """The burst of events about one object; 0: unlimited."""
    pod_max_pids: int = 0
    limits_pids: bool = False
    """Whether the runtime enforces that limit."""
    seccomp_default: bool = False


class ServerFacts(Struct, frozen=True, kw_only=True):
    """How the kubelet's API answers a client without credentials."""

    anonymous_code: int
    weak_cipher: str = ""
    """A weak cipher that the server accepted; empty if it accepted none."""
    valid_until: datetime


class CisFacts(Struct, frozen=True, kw_only=True):
    """The facts that the rules judge; `server` is None if the node's API did not answer."""

    record: NodeRecord
    files: Mapping[CisFile, FileFacts]
    server: ServerFacts | None
    owner: tuple[int, int]
    """User and group of the root directory: besides root, the expected owners of its files."""
    hostname: str
    service_text: str = ""
    now: datetime


def node_record(
    settings: NodeSettings, *, listener: NodeListener | None, runtime: RuntimeParts, has_server: bool
) -> NodeRecord:
    """The record of a node with these settings; `listener` is None without an API of its own."""
    return NodeRecord(
        node_name=settings.node_name,
        runtime=runtime.name,
        address=listener.address if listener is not None else "",
        port=listener.port if listener is not None else 0,
        kubeconfig=str(settings.kubeconfig.absolute()) if settings.kubeconfig else "",
        client_authority=str(settings.client_ca.absolute()) if settings.client_ca else "",
        has_client_authority=listener is not None and listener.knows_clients,
        asks_api_server=has_server,
        key=str(settings.root_dir / "pki/kubelet.key"),
        rotate_certificates=settings.rotate_certificates,
        idle_seconds=IDLE_SECONDS,
        event_burst=SPAM_BURST,
        pod_max_pids=settings.pod_max_pids,
        limits_pids=runtime.limits_pids,
        seccomp_default=settings.seccomp_default,
    )


def write_record(root: Path, record: NodeRecord) -> None:
    """Write the record; CannotStart if that fails."""
    try:
        write_private(root / FILE, msgspec.json.encode(record))
    except OSError as error:
        raise CannotStart(f"{error.filename or root / FILE}: {error.strerror}") from error
