"""Writes `node.json`, the settings of a running node, for `pykubelet check`, and the facts it judges.

The next start reads it: a folder with the pods of another node or cluster needs a decision, because a node stops pods
that it does not find in its API.
"""

import errno
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct

from pykubelet.aio.log import get_logger
from pykubelet.aio.msgspec_types import register_type
from pykubelet.apiserver.certs.certificates import write_private
from pykubelet.app.node_server import NodeListener
from pykubelet.app.runtimes import RuntimeParts
from pykubelet.app.settings import CannotStart, NodeSettings
from pykubelet.client.event_correlator import SPAM_BURST
from pykubelet.kubelet.server.server import IDLE_SECONDS

log = get_logger(__name__)

FILE = "node.json"
_MOST_BYTES = 1 << 20


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
    cluster: str = ""
    """The UID of the namespace kube-system; empty if the node does not know it."""
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
    pod_cidr: str = ""
    """The range of the node's pods, which it keeps while the API server does not answer; empty if it has none."""
    cluster_cidr: str = ""
    """The range of all pods of the cluster; empty if the node does not know it."""
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
        cluster=settings.cluster,
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
        pod_cidr=settings.node_pod_cidr,
        cluster_cidr=settings.cluster_cidr,
        pod_max_pids=settings.pod_max_pids,
        limits_pids=runtime.limits_pids,
        seccomp_default=settings.seccomp_default,
    )


def write_record(root: Path, record: NodeRecord) -> None:
    """Write the record; CannotStart if that fails, unless the disk is full: a node must start there, too."""
    try:
        write_private(root / FILE, msgspec.json.encode(record))
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            log.warning("settings of the node not recorded", path=root / FILE, cause=error.strerror)
            return
        raise CannotStart(f"{error.filename or root / FILE}: {error.strerror}") from error


def read_record(root: Path) -> NodeRecord | None:
    """The record of the node that ran last with this folder; CannotStart if it is unreadable."""
    path = root / FILE
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(_MOST_BYTES), type=register_type(NodeRecord))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CannotStart(f"{path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise CannotStart(f"{path}: {error}; remove it if you know which node this folder belongs to") from error


def replaced_name(record: NodeRecord | None, settings: NodeSettings) -> str:
    """The name that the folder's node had before, if the user chose another one; CannotStart if another one is the default."""
    if record is None or record.node_name == settings.node_name:
        return ""
    old, new = record.node_name, settings.node_name
    if settings.is_default_name:
        effect = f"deletes node {old} with its pods, which manifests and controllers create again on {new}"
        if not settings.with_server:
            effect = f"leaves node {old} in its cluster until it is deleted there"
        raise CannotStart(
            f"{settings.root_dir} belongs to node {old}, but this machine is called {new}: "
            f"--node-name {old} goes on as before; --node-name {new} takes the new name and {effect}"
        )
    return old


def check_cluster(record: NodeRecord | None, settings: NodeSettings) -> None:
    """CannotStart if the folder has the pods of another cluster."""
    if record is not None and record.cluster and record.cluster != settings.cluster:
        root = settings.root_dir
        raise CannotStart(
            f"{root} has the pods of another cluster ({record.cluster}) than the database ({settings.cluster}): "
            f"restore the database of that cluster, or remove {root / FILE} to stop those pods and use this database"
        )
