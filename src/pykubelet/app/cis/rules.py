"""Holds a node against sections 4.1 and 4.2 of the CIS benchmark for Kubernetes (v1.11).

Pure. In: facts. Out: a finding for each item, in their order: what is asked for, in our words, what was seen, and what to
do. What has no counterpart here is said to be so, with the reason.
"""

from collections.abc import Callable, Iterable
from datetime import timedelta
from enum import StrEnum

from msgspec import Struct

from pykubelet.app.cis.facts import DoorFacts, Facts, Part

_MONTH = timedelta(days=30)
_ROOT = 0
_NO_CRI = frozenset({"process", "sim"})


class Verdict(StrEnum):
    """How an item was found."""

    GOOD = "PASS"
    BAD = "FAIL"
    NOT_APPLICABLE = "not applicable"


class Finding(Struct, frozen=True, kw_only=True):
    """One item of the benchmark."""

    id: str
    what: str
    verdict: Verdict
    seen: str
    advice: str = ""


_Judged = tuple[Verdict, str, str]
_Rule = Callable[[Facts], _Judged]


def findings(facts: Facts) -> tuple[Finding, ...]:
    """A finding for each item."""
    found = []
    for id, what, rule in _ITEMS:
        verdict, seen, advice = rule(facts)
        told = advice if verdict is Verdict.BAD else ""
        found.append(Finding(id=id, what=what, verdict=verdict, seen=seen, advice=told))
    return tuple(found)


def has_failed(found: Iterable[Finding]) -> bool:
    """Whether anything is to be done."""
    return any(one.verdict is Verdict.BAD for one in found)


def _none(reason: str) -> _Rule:
    return lambda _: (Verdict.NOT_APPLICABLE, reason, "")


def _judged(seen: str, advice: str, *, is_good: bool) -> _Judged:
    return Verdict.GOOD if is_good else Verdict.BAD, seen, advice


def _mode(part: Part, most: int) -> _Rule:
    def rule(facts: Facts) -> _Judged:
        file = facts.files.get(part)
        if file is None:
            return Verdict.NOT_APPLICABLE, f"there is no {part}", ""
        return _judged(f"{file.path} has {file.mode:o}", f"chmod {most:o} {file.path}", is_good=not file.mode & ~most)

    return rule


def _owner(part: Part) -> _Rule:
    def rule(facts: Facts) -> _Judged:
        file = facts.files.get(part)
        if file is None:
            return Verdict.NOT_APPLICABLE, f"there is no {part}", ""
        uid, gid = facts.owner
        is_good = file.uid in {_ROOT, uid} and file.gid in {_ROOT, gid}
        return _judged(f"{file.path} is {file.uid}:{file.gid}'s", f"chown {uid}:{gid} {file.path}", is_good=is_good)

    return rule


def _at_the_door(judge: Callable[[Facts, DoorFacts], _Judged]) -> _Rule:
    """Of a node that has an API of its own."""

    def rule(facts: Facts) -> _Judged:
        if not facts.record.port:
            return Verdict.NOT_APPLICABLE, "this node has no API of its own", ""
        if facts.door is None:
            place = f"{facts.record.address}:{facts.record.port}"
            return Verdict.BAD, f"nobody answers at {place}", "start the node and check again"
        return judge(facts, facts.door)

    return rule


def _anonymous(_: Facts, door: DoorFacts) -> _Judged:
    return _judged(
        f"a request without credentials is answered {door.anonymous_code}",
        "find out who answers at the node's port: this node lets nobody in without credentials",
        is_good=door.anonymous_code in {401, 403},
    )


def _authorization(facts: Facts, _: DoorFacts) -> _Judged:
    is_good = facts.record.asks_api_server
    seen = "the API server is asked" if is_good else "whoever has a certificate of the authority may do everything"
    return _judged(seen, "give the node an API server (--kubeconfig)", is_good=is_good)


def _client_authority(facts: Facts, _: DoorFacts) -> _Judged:
    is_good = facts.record.has_client_authority
    return _judged("there is one" if is_good else "there is none", "set --client-ca", is_good=is_good)


def _idle(facts: Facts, _: DoorFacts) -> _Judged:
    seconds = facts.record.idle_seconds
    return _judged(f"{seconds:g} s", "update pykubelet", is_good=seconds > 0)


def _host_name(facts: Facts) -> _Judged:
    name = facts.record.node_name
    seen = f"the node is {name}, the machine {facts.hostname}"
    return _judged(seen, "leave --node-name out", is_good=name == facts.hostname.lower())


def _events(facts: Facts) -> _Judged:
    burst = facts.record.event_burst
    return _judged(f"{burst} at once about one object, then fewer", "update pykubelet", is_good=burst > 0)


def _serving_key(facts: Facts, door: DoorFacts) -> _Judged:
    file = facts.files.get(Part.KEY)
    if file is None:
        return Verdict.BAD, "there is no private key in the node's folder", "start the node and check again"
    uid, _ = facts.owner
    is_good = not file.mode & 0o177 and file.uid in {_ROOT, uid}
    seen = f"{file.path} has {file.mode:o}, the certificate is good until {door.valid_until:%Y-%m-%d}"
    return _judged(seen, f"chmod 600 {file.path}", is_good=is_good)


def _client_rotation(facts: Facts) -> _Judged:
    if not facts.record.kubeconfig:
        return Verdict.NOT_APPLICABLE, "the node has no client certificate: its API server is in the same process", ""
    is_good = facts.record.rotate_certificates
    return _judged("on" if is_good else "off", "leave --no-rotate-certificates out", is_good=is_good)


def _server_rotation(facts: Facts, door: DoorFacts) -> _Judged:
    seen = f"good until {door.valid_until:%Y-%m-%d}, renewed in time"
    return _judged(seen, "start the node anew", is_good=door.valid_until - facts.now > _MONTH)


def _ciphers(_: Facts, door: DoorFacts) -> _Judged:
    seen = f"{door.weak_cipher} is accepted" if door.weak_cipher else "no weak cipher and no old TLS is accepted"
    return _judged(seen, "find out who answers at the node's port", is_good=not door.weak_cipher)


def _processes(facts: Facts) -> _Judged:
    record = facts.record
    if record.runtime == "sim":
        return Verdict.NOT_APPLICABLE, "containers are simulated", ""
    if record.pod_max_pids < 1:
        return Verdict.BAD, "any number", "leave --pod-max-pids out, or set it"
    advice = "run the node where it may make control groups, with the cgroupfs driver"
    seen = f"{record.pod_max_pids}{'' if record.limits_pids else ', but nothing enforces it here'}"
    return _judged(seen, advice, is_good=record.limits_pids)


def _seccomp(facts: Facts) -> _Judged:
    if facts.record.runtime in _NO_CRI:
        return Verdict.NOT_APPLICABLE, f"with {facts.record.runtime} there is no seccomp: it is no sandbox", ""
    is_good = facts.record.seccomp_default
    return _judged("on" if is_good else "off", "leave --no-seccomp-default out", is_good=is_good)


def _address_deny(facts: Facts) -> _Judged:
    if Part.SERVICE not in facts.files:
        return Verdict.NOT_APPLICABLE, f"there is no {Part.SERVICE}", ""
    lines = {line.replace(" ", "") for line in facts.service_text.splitlines()}
    advice = "add IPAddressDeny=any, and IPAddressAllow= for those who need it, to the unit's [Service]"
    is_good = "IPAddressDeny=any" in lines
    return _judged("it is there" if is_good else "it is not there", advice, is_good=is_good)


_NO_PROXY = "there is no kube-proxy"
_ITEMS: tuple[tuple[str, str, _Rule], ...] = (
    ("4.1.1", "service file: 600 or less", _mode(Part.SERVICE, 0o600)),
    ("4.1.2", "service file: root's", _owner(Part.SERVICE)),
    ("4.1.3", "kubeconfig of kube-proxy: 600 or less", _none(_NO_PROXY)),
    ("4.1.4", "kubeconfig of kube-proxy: root's", _none(_NO_PROXY)),
    ("4.1.5", "kubeconfig of the node: 600 or less", _mode(Part.KUBECONFIG, 0o600)),
    ("4.1.6", "kubeconfig of the node: root's, or the node's user's", _owner(Part.KUBECONFIG)),
    ("4.1.7", "certificate authority of clients: 644 or less", _mode(Part.CLIENT_AUTHORITY, 0o644)),
    ("4.1.8", "certificate authority of clients: root's, or the node's user's", _owner(Part.CLIENT_AUTHORITY)),
    ("4.1.9", "settings file of the node: 600 or less", _mode(Part.SETTINGS, 0o600)),
    ("4.1.10", "settings file of the node: root's, or the node's user's", _owner(Part.SETTINGS)),
    ("4.2.1", "nobody is let in without credentials", _at_the_door(_anonymous)),
    ("4.2.2", "not everybody who is let in may do everything", _at_the_door(_authorization)),
    ("4.2.3", "clients are known by an authority", _at_the_door(_client_authority)),
    ("4.2.4", "no read-only port", lambda _: (Verdict.GOOD, "this node has none", "")),
    ("4.2.5", "streams over which nothing is said are ended", _at_the_door(_idle)),
    ("4.2.6", "chains of iptables are kept", _none("this node leaves iptables alone")),
    ("4.2.7", "the node is called as its machine is", _host_name),
    ("4.2.8", "events are told, but not without end", _events),
    ("4.2.9", "the node's API has a certificate, and its key is private", _at_the_door(_serving_key)),
    ("4.2.10", "the node's client certificate is renewed", _client_rotation),
    ("4.2.11", "the certificate of the node's API is renewed", _at_the_door(_server_rotation)),
    ("4.2.12", "only strong ciphers", _at_the_door(_ciphers)),
    ("4.2.13", "pods may not have any number of processes", _processes),
    ("4.2.14", "the runtime's seccomp profile by default", _seccomp),
    ("4.2.15", "the service may talk to known addresses only", _address_deny),
)
