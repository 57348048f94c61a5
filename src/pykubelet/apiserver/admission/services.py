"""Every service gets the addresses and ports that its type needs, and no two get the same.

Upstream: pkg/registry/core/service/storage/storage.go (beginCreate, beginUpdate)
"""

from collections.abc import Callable, Sequence

from pykubelet.api.resources import SERVICES
from pykubelet.api.wire import Document
from pykubelet.apiserver.admission import Request
from pykubelet.apiserver.store import Entry, Key
from pykubelet.apiserver.strategies.service_allocation import allocated, taken_by

# Writes that are decided but not yet seen by readers are few; more than this are of services that never came to be.
_MOST_UNSEEN = 256


class ServiceAddresses:
    """The rule; `services` gives the entries of all services, as readers see them."""

    def __init__(self, services: Callable[[], Sequence[Entry]]) -> None:
        self._services = services
        self._unseen: dict[Key, Document] = {}

    def admit(self, request: Request, new: Document | None, old: Document | None) -> Document | None:
        if new is None or request.subresource or request.served.resource.group_resource != SERVICES.group_resource:
            return new
        mine = Key(SERVICES.group_resource, request.namespace, request.name)
        entries = {entry.key: entry for entry in self._services() if entry.key != mine}
        for key in entries.keys() & self._unseen.keys():
            del self._unseen[key]
        others = [entry.document for entry in entries.values()]
        others += [service for key, service in self._unseen.items() if key != mine]
        service = allocated(new, old, taken_by(others))
        if not request.dry_run:
            self._unseen.pop(mine, None)
            self._unseen[mine] = service
            while len(self._unseen) > _MOST_UNSEEN:
                del self._unseen[next(iter(self._unseen))]
        return service
