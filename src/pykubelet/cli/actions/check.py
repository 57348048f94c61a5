"""Checks of `pykubelet check`: manifests by the API server's rules, nodes by the CIS benchmark.

`findings` evaluates sections 4.1 and 4.2 of the CIS Kubernetes Benchmark v1.11: each item with its requirement, what
was observed and how to fix it. `gather_facts` reads a node's files and connects to its API without credentials.
"""

import http.client
import socket
import ssl
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from cryptography import x509
from msgspec import Struct

from pykubelet.api.manifest import ManifestError, ManifestItem, ManifestProblem, read_manifest
from pykubelet.api.serializer import Document
from pykubelet.apiserver.registry import BUILT_IN_KINDS
from pykubelet.app.node_record import FILE, CisFacts, CisFile, FileFacts, NodeRecord, ServerFacts, read_record
from pykubelet.app.settings import CannotStart
from pykubelet.httpserver.listener import CIPHERS

_SECONDS = 10.0
# Every cipher a client may offer except those that our servers accept.
_WEAK = "ALL:@SECLEVEL=0:" + ":".join(f"!{kind}" for kind in CIPHERS.split(":"))
_UNITS = (Path("/etc/systemd/system/pykubelet.service"), Path("/lib/systemd/system/pykubelet.service"))
_MONTH = timedelta(days=30)
_ROOT = 0
_NO_CRI = frozenset({"process", "sim"})
_NO_PROXY = "there is no kube-proxy"
_STRATEGIES = {(served.resource.api_version, served.resource.kind): served for served in BUILT_IN_KINDS}
_ANY_UID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True, kw_only=True)
class CisPaths:
    """The paths to check; None stands for the node's default."""

    root: Path
    data: Path
    kubeconfig: Path | None = None
    service: Path | None = None


def gather_facts(places: CisPaths, now: datetime) -> CisFacts:
    """Gather the facts about a node; CannotStart if no node was ever started there."""
    record = _record(places.root)
    folder = places.root.stat()
    service = places.service or next((unit for unit in _UNITS if unit.exists()), None)
    return CisFacts(
        record=record,
        files=_files(places, record, service),
        server=_server_facts(record.address, record.port) if record.port else None,
        owner=(folder.st_uid, folder.st_gid),
        hostname=socket.gethostname(),
        service_text=service.read_text(errors="replace") if service is not None else "",
        now=now,
    )


def _record(root: Path) -> NodeRecord:
    record = read_record(root)
    if record is None:
        raise CannotStart(f"there is no {root / FILE}: no node was run with --root-dir {root}")
    return record


def _files(places: CisPaths, record: NodeRecord, service: Path | None) -> Mapping[CisFile, FileFacts]:
    named = {
        CisFile.SERVICE: service,
        CisFile.KUBECONFIG: places.kubeconfig or Path(record.kubeconfig or places.data / "admin.kubeconfig"),
        CisFile.CLIENT_AUTHORITY: Path(record.client_authority or places.data / "pki/ca.crt"),
        CisFile.SETTINGS: places.root / FILE,
        CisFile.KEY: Path(record.key),
    }
    found: dict[CisFile, FileFacts] = {}
    for part, path in named.items():
        with suppress(FileNotFoundError):
            if path is not None:
                status = path.stat()
                mode = stat.S_IMODE(status.st_mode)
                found[part] = FileFacts(path=str(path), mode=mode, uid=status.st_uid, gid=status.st_gid)
    return found


def _server_facts(address: str, port: int) -> ServerFacts | None:
    """How the node's API answers a client without credentials; None if it does not answer."""
    connection = http.client.HTTPSConnection(address, port, timeout=_SECONDS, context=_unverified_context())
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
    return ServerFacts(anonymous_code=code, weak_cipher=_weak_cipher(address, port), valid_until=until)


def _weak_cipher(address: str, port: int) -> str:
    """The cipher that the server agrees on with a client that offers only old or weak ones; empty if it refuses."""
    context = _unverified_context()
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


def _unverified_context() -> ssl.SSLContext:
    """A TLS context that verifies nothing: no secret is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class CisResult(StrEnum):
    GOOD = "PASS"
    BAD = "FAIL"
    NOT_APPLICABLE = "not applicable"


class CisFinding(Struct, frozen=True, kw_only=True):
    """The finding for one item of the benchmark."""

    id: str
    what: str
    verdict: CisResult
    seen: str
    advice: str = ""


_Judged = tuple[CisResult, str, str]
"""The result, what was observed, and advice."""
_Rule = Callable[[CisFacts], _Judged]


def findings(facts: CisFacts) -> tuple[CisFinding, ...]:
    """The findings for all items, in order."""
    found = []
    for id, what, rule in _ITEMS:
        verdict, seen, advice = rule(facts)
        needed = advice if verdict is CisResult.BAD else ""
        found.append(CisFinding(id=id, what=what, verdict=verdict, seen=seen, advice=needed))
    return tuple(found)


def has_failed(found: Iterable[CisFinding]) -> bool:
    return any(one.verdict is CisResult.BAD for one in found)


def _none(reason: str) -> _Rule:
    return lambda _: (CisResult.NOT_APPLICABLE, reason, "")


def _judged(seen: str, advice: str, *, is_good: bool) -> _Judged:
    return CisResult.GOOD if is_good else CisResult.BAD, seen, advice


def _mode(part: CisFile, most: int) -> _Rule:
    def rule(facts: CisFacts) -> _Judged:
        file = facts.files.get(part)
        if file is None:
            return CisResult.NOT_APPLICABLE, f"there is no {part}", ""
        return _judged(f"{file.path} has {file.mode:o}", f"chmod {most:o} {file.path}", is_good=not file.mode & ~most)

    return rule


def _owner(part: CisFile) -> _Rule:
    def rule(facts: CisFacts) -> _Judged:
        file = facts.files.get(part)
        if file is None:
            return CisResult.NOT_APPLICABLE, f"there is no {part}", ""
        uid, gid = facts.owner
        is_good = file.uid in {_ROOT, uid} and file.gid in {_ROOT, gid}
        return _judged(f"{file.path} is {file.uid}:{file.gid}'s", f"chown {uid}:{gid} {file.path}", is_good=is_good)

    return rule


def _of_served_node(judge: Callable[[CisFacts, ServerFacts], _Judged]) -> _Rule:
    """Limits a rule to nodes that serve their own API."""

    def rule(facts: CisFacts) -> _Judged:
        if not facts.record.port:
            return CisResult.NOT_APPLICABLE, "this node has no API of its own", ""
        if facts.server is None:
            place = f"{facts.record.address}:{facts.record.port}"
            return CisResult.BAD, f"no answer from {place}", "start the node and check again"
        return judge(facts, facts.server)

    return rule


def _anonymous(_: CisFacts, server: ServerFacts) -> _Judged:
    return _judged(
        f"a request without credentials is answered {server.anonymous_code}",
        "find the program that listens on the node's port: this node requires credentials",
        is_good=server.anonymous_code in {401, 403},
    )


def _authorization(facts: CisFacts, _: ServerFacts) -> _Judged:
    is_good = facts.record.asks_api_server
    seen = (
        "the API server is asked" if is_good else "every client with a certificate of the authority may do everything"
    )
    return _judged(seen, "give the node an API server (--kubeconfig)", is_good=is_good)


def _client_authority(facts: CisFacts, _: ServerFacts) -> _Judged:
    is_good = facts.record.has_client_authority
    return _judged("there is one" if is_good else "there is none", "set --client-ca", is_good=is_good)


def _idle(facts: CisFacts, _: ServerFacts) -> _Judged:
    seconds = facts.record.idle_seconds
    return _judged(f"{seconds:g} s", "update pykubelet", is_good=seconds > 0)


def _host_name(facts: CisFacts) -> _Judged:
    name = facts.record.node_name
    seen = f"the node is {name}, the machine {facts.hostname}"
    return _judged(seen, "leave --node-name out", is_good=name == facts.hostname.lower())


def _events(facts: CisFacts) -> _Judged:
    burst = facts.record.event_burst
    return _judged(f"{burst} at once about one object, then fewer", "update pykubelet", is_good=burst > 0)


def _serving_key(facts: CisFacts, server: ServerFacts) -> _Judged:
    file = facts.files.get(CisFile.KEY)
    if file is None:
        return CisResult.BAD, "there is no private key in the node's folder", "start the node and check again"
    uid, _ = facts.owner
    is_good = not file.mode & 0o177 and file.uid in {_ROOT, uid}
    seen = f"{file.path} has {file.mode:o}, the certificate is good until {server.valid_until:%Y-%m-%d}"
    return _judged(seen, f"chmod 600 {file.path}", is_good=is_good)


def _client_rotation(facts: CisFacts) -> _Judged:
    if not facts.record.kubeconfig:
        return CisResult.NOT_APPLICABLE, "the node has no client certificate: its API server is in the same process", ""
    is_good = facts.record.rotate_certificates
    return _judged("on" if is_good else "off", "leave --no-rotate-certificates out", is_good=is_good)


def _server_rotation(facts: CisFacts, server: ServerFacts) -> _Judged:
    seen = f"good until {server.valid_until:%Y-%m-%d}, renewed in time"
    return _judged(seen, "restart the node", is_good=server.valid_until - facts.now > _MONTH)


def _ciphers(_: CisFacts, server: ServerFacts) -> _Judged:
    seen = f"{server.weak_cipher} is accepted" if server.weak_cipher else "no weak cipher and no old TLS is accepted"
    return _judged(seen, "find the program that listens on the node's port", is_good=not server.weak_cipher)


def _processes(facts: CisFacts) -> _Judged:
    record = facts.record
    if record.runtime == "sim":
        return CisResult.NOT_APPLICABLE, "containers are simulated", ""
    if record.pod_max_pids < 1:
        return CisResult.BAD, "any number", "leave --pod-max-pids out, or set it"
    advice = "run the node where it may make control groups, with the cgroupfs driver"
    seen = f"{record.pod_max_pids}{'' if record.limits_pids else ', but nothing enforces it here'}"
    return _judged(seen, advice, is_good=record.limits_pids)


def _seccomp(facts: CisFacts) -> _Judged:
    if facts.record.runtime in _NO_CRI:
        return CisResult.NOT_APPLICABLE, f"with {facts.record.runtime} there is no seccomp: it is not a sandbox", ""
    is_good = facts.record.seccomp_default
    return _judged("on" if is_good else "off", "leave --no-seccomp-default out", is_good=is_good)


def _address_deny(facts: CisFacts) -> _Judged:
    if CisFile.SERVICE not in facts.files:
        return CisResult.NOT_APPLICABLE, f"there is no {CisFile.SERVICE}", ""
    lines = {line.replace(" ", "") for line in facts.service_text.splitlines()}
    advice = "add IPAddressDeny=any, and IPAddressAllow= for those who need it, to the unit's [Service]"
    is_good = "IPAddressDeny=any" in lines
    return _judged("it is there" if is_good else "it is not there", advice, is_good=is_good)


_ITEMS: tuple[tuple[str, str, _Rule], ...] = (
    ("4.1.1", "service file: 600 or less", _mode(CisFile.SERVICE, 0o600)),
    ("4.1.2", "service file: root's", _owner(CisFile.SERVICE)),
    ("4.1.3", "kubeconfig of kube-proxy: 600 or less", _none(_NO_PROXY)),
    ("4.1.4", "kubeconfig of kube-proxy: root's", _none(_NO_PROXY)),
    ("4.1.5", "kubeconfig of the node: 600 or less", _mode(CisFile.KUBECONFIG, 0o600)),
    ("4.1.6", "kubeconfig of the node: root's, or the node's user's", _owner(CisFile.KUBECONFIG)),
    ("4.1.7", "certificate authority of clients: 644 or less", _mode(CisFile.CLIENT_AUTHORITY, 0o644)),
    ("4.1.8", "certificate authority of clients: root's, or the node's user's", _owner(CisFile.CLIENT_AUTHORITY)),
    ("4.1.9", "settings file of the node: 600 or less", _mode(CisFile.SETTINGS, 0o600)),
    ("4.1.10", "settings file of the node: root's, or the node's user's", _owner(CisFile.SETTINGS)),
    ("4.2.1", "anonymous requests are rejected", _of_served_node(_anonymous)),
    ("4.2.2", "authenticated clients are authorized", _of_served_node(_authorization)),
    ("4.2.3", "client certificates have an authority", _of_served_node(_client_authority)),
    ("4.2.4", "no read-only port", lambda _: (CisResult.GOOD, "this node has none", "")),
    ("4.2.5", "idle streams are closed", _of_served_node(_idle)),
    ("4.2.6", "iptables chains are kept", _none("this node leaves iptables alone")),
    ("4.2.7", "the node has the name of its machine", _host_name),
    ("4.2.8", "events are recorded, with a rate limit", _events),
    ("4.2.9", "the node's API has a certificate, and its key is private", _of_served_node(_serving_key)),
    ("4.2.10", "the node's client certificate is renewed", _client_rotation),
    ("4.2.11", "the certificate of the node's API is renewed", _of_served_node(_server_rotation)),
    ("4.2.12", "only strong ciphers", _of_served_node(_ciphers)),
    ("4.2.13", "pods have a limit of processes", _processes),
    ("4.2.14", "the runtime's seccomp profile by default", _seccomp),
    ("4.2.15", "the service may connect to known addresses only", _address_deny),
)


def problems_in(data: bytes, origin: str) -> list[ManifestProblem]:
    """The problems of a manifest in the order of its lines; none if an API server would accept it."""
    try:
        manifest = read_manifest(data, origin=origin)
    except ManifestError as error:
        return list(error.problems)
    return [problem for item in manifest.items for problem in _broken_rules(item)]


def _broken_rules(item: ManifestItem) -> list[ManifestProblem]:
    served = _STRATEGIES.get((item.api_version, item.kind))
    if served is None:
        return []
    strategy = served.strategy
    document = strategy.prepare_create(
        strategy.default(_as_created(item.document, namespaced=served.resource.namespaced))
    )
    return [item.problem(error.field, error.body) for error in strategy.validate_create(document)]


def _as_created(document: Document, *, namespaced: bool) -> Document:
    """The object with the UID, namespace and generated name that the server would set."""
    metadata = {**(document.get("metadata") or {}), "uid": _ANY_UID}
    if namespaced:
        metadata.setdefault("namespace", "default")
    if "generateName" in metadata and not metadata.get("name"):
        metadata["name"] = f"{metadata['generateName']}xxxxx"
    return {**document, "metadata": metadata}
