"""What is known of a node when it is held against the CIS benchmark. Values only."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from msgspec import Struct


class Part(StrEnum):
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


class DoorFacts(Struct, frozen=True, kw_only=True):
    """How the node's API answers somebody without credentials."""

    anonymous_code: int
    weak_cipher: str = ""
    """A cipher that should not be, yet was agreed on; empty if none was."""
    valid_until: datetime


class Facts(Struct, frozen=True, kw_only=True):
    """All of it. Without `door` nobody answered."""

    record: NodeRecord
    files: Mapping[Part, FileFacts]
    door: DoorFacts | None
    owner: tuple[int, int]
    """User and group of the node's folder: beside root, whose its files may be."""
    hostname: str
    service_text: str = ""
    now: datetime
