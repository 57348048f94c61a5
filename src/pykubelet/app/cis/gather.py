"""Finds out the facts about a node: from its files, and by asking at its door as a stranger."""

import http.client
import socket
import ssl
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec
from cryptography import x509

from pykubelet.aio.learned import learned
from pykubelet.aio.tls_serving import CIPHERS
from pykubelet.app.cis.facts import DoorFacts, Facts, FileFacts, NodeRecord, Part
from pykubelet.app.cis.record import FILE
from pykubelet.app.settings import CannotStart

_SECONDS = 10.0
_MOST_BYTES = 1 << 20
# Everything a client could offer but what a server here takes.
_WEAK = "ALL:@SECLEVEL=0:" + ":".join(f"!{kind}" for kind in CIPHERS.split(":"))
_UNITS = (Path("/etc/systemd/system/pykubelet.service"), Path("/lib/systemd/system/pykubelet.service"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where to look; what is None is where a node has it by itself."""

    root: Path
    data: Path
    kubeconfig: Path | None = None
    service: Path | None = None


def gather(places: Places, now: datetime) -> Facts:
    """Look at everything; CannotStart if no node was ever run there."""
    record = _record(places.root)
    folder = places.root.stat()
    service = places.service or next((unit for unit in _UNITS if unit.exists()), None)
    return Facts(
        record=record,
        files=_files(places, record, service),
        door=_door(record.address, record.port) if record.port else None,
        owner=(folder.st_uid, folder.st_gid),
        hostname=socket.gethostname(),
        service_text=service.read_text(errors="replace") if service is not None else "",
        now=now,
    )


def _record(root: Path) -> NodeRecord:
    path = root / FILE
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(_MOST_BYTES), type=learned(NodeRecord))
    except FileNotFoundError:
        raise CannotStart(f"there is no {path}: no node was run with --root-dir {root}") from None
    except OSError as error:
        raise CannotStart(f"{path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise CannotStart(f"{path}: {error}") from error


def _files(places: Places, record: NodeRecord, service: Path | None) -> Mapping[Part, FileFacts]:
    named = {
        Part.SERVICE: service,
        Part.KUBECONFIG: places.kubeconfig or Path(record.kubeconfig or places.data / "admin.kubeconfig"),
        Part.CLIENT_AUTHORITY: Path(record.client_authority or places.data / "pki/ca.crt"),
        Part.SETTINGS: places.root / FILE,
        Part.KEY: Path(record.key),
    }
    found: dict[Part, FileFacts] = {}
    for part, path in named.items():
        with suppress(FileNotFoundError):
            if path is not None:
                status = path.stat()
                mode = stat.S_IMODE(status.st_mode)
                found[part] = FileFacts(path=str(path), mode=mode, uid=status.st_uid, gid=status.st_gid)
    return found


def _door(address: str, port: int) -> DoorFacts | None:
    """How the node answers a stranger; None if it does not."""
    connection = http.client.HTTPSConnection(address, port, timeout=_SECONDS, context=_stranger())
    try:
        connection.request("GET", "/pods")
        assert isinstance(connection.sock, ssl.SSLSocket)
        shown = connection.sock.getpeercert(binary_form=True)
        code = connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    until = x509.load_der_x509_certificate(shown or b"").not_valid_after_utc
    return DoorFacts(anonymous_code=code, weak_cipher=_weak_cipher(address, port), valid_until=until)


def _weak_cipher(address: str, port: int) -> str:
    """What a server agrees on with a client that knows only what is old or weak; empty if it refuses."""
    context = _stranger()
    context.minimum_version, context.maximum_version = ssl.TLSVersion.MINIMUM_SUPPORTED, ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_WEAK)
    try:
        with (
            socket.create_connection((address, port), timeout=_SECONDS) as plain,
            context.wrap_socket(plain) as secure,
        ):
            agreed = secure.cipher()
            return f"{agreed[0]} of {secure.version()}" if agreed else ""
    except OSError:
        return ""


def _stranger() -> ssl.SSLContext:
    """Trusts anybody: it is not told anything secret."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
