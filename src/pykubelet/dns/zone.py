"""The cluster's zone: an index of DNS records that follows services, EndpointSlices and pods.

A change costs as much as the changed object has endpoints: the records that it had and has are compared, and only the
difference is written. Several objects may give the same record, which stays until the last of them is gone. Answers are
put together when they are first asked for, and kept until a record of theirs changes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import Pod, Service
from pykubelet.api.generated.discovery import Endpoint, EndpointPort, EndpointSlice
from pykubelet.api.pods import pod_label
from pykubelet.api.scheme import ENDPOINT_SLICES, PODS, SERVICES
from pykubelet.client.indexer import key_of
from pykubelet.client.informers import Informers
from pykubelet.dns.message import TO_QUESTION, Rcode, RecordType, Sections, encode_name, label, parent, record, soa
from pykubelet.dns.records import (
    SERVICE_NAME,
    Record,
    endpoint_records,
    pod_records,
    service_records,
    zone_records,
)

log = get_logger(__name__)

TTL = 5
"""Seconds that clients may keep an answer, and that something does not exist: CoreDNS' default."""
# Targets of SRV records whose addresses are added to the answer; more would not fit into a UDP response.
_MAX_ADDITIONAL = 16
# Services that point to each other: as many as other resolvers follow.
_MAX_ALIASES = 8
# An answer of a usual name takes half a kilobyte.
_MAX_PREPARED = 4096
_MAX_SERIAL = 2**32 - 1
_ADDRESSES = (RecordType.A, RecordType.AAAA)
_NOTHING = frozenset[Record]()
_Key = tuple[bytes, int]
_EndpointKey = tuple[tuple[str, ...], str | None, bool | None]


class Answer(NamedTuple):
    """What the zone knows about a question."""

    rcode: Rcode
    sections: Sections
    alias: bytes = b""
    """A name of another zone that the answer continues with; empty if it is complete."""


class _Prepared:
    """An answer as it is sent; its records take turns at the first place, which most clients use."""

    __slots__ = ("answer", "turn")

    def __init__(self, answer: Answer) -> None:
        self.answer, self.turn = answer, 0

    def next(self) -> Answer:
        rows = self.answer.sections.answer
        if len(rows) < 2:
            return self.answer
        self.turn = (self.turn + 1) % len(rows)
        turned = (*rows[self.turn :], *rows[: self.turn])
        return self.answer._replace(sections=self.answer.sections._replace(answer=turned))


class ClusterZone:
    """The records of the cluster domain and of the reverse names of its addresses."""

    def __init__(self, domain: str) -> None:
        self.name = encode_name(domain)
        self._sets: dict[_Key, dict[bytes, int]] = {}
        self._below: dict[bytes, int] = {}
        """How many records a name and those below it have, which tells an empty name from one that does not exist."""
        self._prepared: dict[_Key, _Prepared] = {}
        self._services: dict[str, Service] = {}
        self._slices: dict[str, dict[str, EndpointSlice]] = {}
        self._service_of: dict[str, str] = {}
        self._pods: dict[str, frozenset[Record]] = {}
        self.serial = 1
        primary = label("kube-dns") + label("kube-system") + label("svc") + self.name
        self._primary, self._mailbox = primary, label("hostmaster") + self.name
        self._replace(_NOTHING, zone_records(self.name) | {Record(self.name, RecordType.NS, primary)})

    def listen(self, informers: Informers) -> None:
        """Subscribes to everything that has records."""
        informers.add_event_handler(SERVICES, changed=self.put_service, deleted=self.remove_service)
        informers.add_event_handler(ENDPOINT_SLICES, changed=self.put_slice, deleted=self.remove_slice)
        informers.add_event_handler(PODS, changed=self.put_pod, deleted=self.remove_pod)

    def put_service(self, service: Service) -> None:
        """Adds or replaces a service, whose endpoints may get other records by it."""
        self._set_service(key_of(service), service)

    def remove_service(self, service: Service) -> None:
        self._set_service(key_of(service), None)

    def put_slice(self, endpoints: EndpointSlice) -> None:
        """Adds or replaces a slice, which may have moved to another service."""
        meta = endpoints.metadata
        service = f"{meta.namespace}/{meta.labels.get(SERVICE_NAME, '')}"
        if self._service_of.get(key_of(endpoints), service) != service:
            self.remove_slice(endpoints)
        self._service_of[key_of(endpoints)] = service
        slices = self._slices.setdefault(service, {})
        old = slices.get(meta.name)
        slices[meta.name] = endpoints
        self._replace_slice(self._services.get(service), old, endpoints)

    def remove_slice(self, endpoints: EndpointSlice) -> None:
        service = self._service_of.pop(key_of(endpoints), None)
        if service is not None:
            slices = self._slices[service]
            self._replace_slice(self._services.get(service), slices.pop(endpoints.metadata.name), None)
            if not slices:
                del self._slices[service]

    def put_pod(self, pod: Pod) -> None:
        """Adds or replaces a pod. Most changes of pods change no record."""
        new = pod_records(pod, self.name)
        old = self._pods.get(pod_label(pod), _NOTHING)
        if new != old:
            self._pods[pod_label(pod)] = new
            self._replace(old, new)

    def remove_pod(self, pod: Pod) -> None:
        self._replace(self._pods.pop(pod_label(pod), _NOTHING), _NOTHING)

    def answer(self, name: bytes, type: int) -> Answer | None:
        """The answer to a question; None if the name is not the zone's."""
        key = (name, type)
        prepared = self._prepared.get(key)
        if prepared is None:
            found = self._find(name, type)
            # Other answers depend on more than the records of this name and type.
            if found is None or type == RecordType.SRV or key not in self._sets:
                return found
            while len(self._prepared) >= _MAX_PREPARED:
                del self._prepared[next(iter(self._prepared))]
            prepared = self._prepared[key] = _Prepared(found)
        return prepared.next()

    def _find(self, name: bytes, type: int) -> Answer | None:
        if type == RecordType.SOA and name == self.name:
            return Answer(Rcode.NOERROR, Sections((self._soa(TO_QUESTION),)))
        owner, rows = TO_QUESTION, list[bytes]()
        for _ in range(_MAX_ALIASES):
            if found := self._sets.get((name, type)):
                rows += [record(owner, type, TTL, data) for data in found]
                return Answer(Rcode.NOERROR, Sections(rows, additional=self._additional(type, found)))
            aliases = self._sets.get((name, RecordType.CNAME))
            if not aliases:
                break
            target = next(iter(aliases))
            rows.append(record(owner, RecordType.CNAME, TTL, target))
            if type not in _ADDRESSES or not self._has(target):
                return Answer(Rcode.NOERROR, Sections(rows), target if type in _ADDRESSES else b"")
            owner = name = target
        if name not in self._below and not self._has(name):
            return None
        rcode = Rcode.NOERROR if name in self._below else Rcode.NXDOMAIN
        return Answer(rcode, Sections(rows, (self._soa(self.name),)))

    def _has(self, name: bytes) -> bool:
        """Whether a name is in the zone; compared label by label, as a label may contain any bytes."""
        while len(name) > len(self.name):
            name = parent(name)
        return name == self.name

    def _soa(self, owner: bytes) -> bytes:
        data = soa(self._primary, self._mailbox, self.serial, negative_ttl=TTL)
        return record(owner, RecordType.SOA, TTL, data)

    def _additional(self, type: int, found: Iterable[bytes]) -> Sequence[bytes]:
        """The addresses of the targets of SRV records."""
        if type != RecordType.SRV:
            return ()
        # Priority, weight and port come before the target.
        targets = [data[6:] for data, _ in zip(found, range(_MAX_ADDITIONAL), strict=False)]
        return [
            record(target, kind, TTL, data)
            for target in dict.fromkeys(targets)
            for kind in _ADDRESSES
            for data in self._sets.get((target, kind), ())
        ]

    def _set_service(self, key: str, new: Service | None) -> None:
        old = self._services.get(key)
        slices = self._slices.get(key, {}).values() if _of_endpoints(old) != _of_endpoints(new) else ()
        for endpoints in slices:
            self._replace_slice(old, endpoints, None)
        if new is None:
            self._services.pop(key, None)
        else:
            self._services[key] = new
        before, after = (service_records(one, self.name) if one is not None else _NOTHING for one in (old, new))
        self._replace(before, after)
        for endpoints in slices:
            self._replace_slice(new, None, endpoints)

    def _replace_slice(self, service: Service | None, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        """Writes the records of the endpoints that two versions of a slice do not have in common."""
        if service is None:
            return
        before, after = _endpoints_of(old), _endpoints_of(new)
        for endpoints, others, change in ((before, after, -1), (after, before, 1)):
            for key, (ports, endpoint) in endpoints.items():
                if key not in others or others[key][0] != ports:
                    for row in endpoint_records(service, endpoint, ports, self.name):
                        self._add(row, change)

    def _replace(self, old: frozenset[Record], new: frozenset[Record]) -> None:
        """Writes the difference of two sets of records."""
        for row in old - new:
            self._add(row, -1)
        for row in new - old:
            self._add(row, 1)

    def _add(self, row: Record, change: int) -> None:
        """Counts a record in or out."""
        name, type, data = row
        found = self._sets.setdefault((name, type), {})
        found[data] = found.get(data, 0) + change
        if not found[data]:
            del found[data]
        if not found:
            del self._sets[name, type]
        self._prepared.pop((name, type), None)
        self.serial = self.serial % _MAX_SERIAL + 1
        # Names above the zone, and above reverse names, are other servers'.
        last = self.name if self._has(name) else name
        while True:
            self._below[name] = self._below.get(name, 0) + change
            if not self._below[name]:
                del self._below[name]
            if name == last:
                return
            name = parent(name)


def _endpoints_of(found: EndpointSlice | None) -> Mapping[_EndpointKey, tuple[Sequence[EndpointPort], Endpoint]]:
    """The different endpoints of a slice, by what their records depend on, each with the slice's ports."""
    if found is None:
        return {}
    return {(one.addresses, one.hostname, one.conditions.ready): (found.ports, one) for one in found.endpoints}


def _of_endpoints(service: Service | None) -> tuple[object, ...]:
    """What the records of a service's endpoints depend on."""
    if service is None:
        return ()
    spec = service.spec
    return spec.type, spec.cluster_ip, spec.publish_not_ready_addresses
