"""The endpoints of backends: which are used, in which order, and what is wrong with a backend."""

import pytest

from ingress_lab import LOOPBACK, endpoints, service
from pykubelet.api.generated.core import Service
from pykubelet.ingress.backends import BackendProblem, ServiceBackends
from pykubelet.ingress.routes import ServicePortReference

_WEB = ServicePortReference("default/web", 80)


def _backends(*services: Service) -> ServiceBackends:
    found = ServiceBackends()
    found.look_up({f"default/{one.metadata.name}": one for one in services}.get)
    return found


def _all(backends: ServiceBackends, port: str | int = 80) -> list[int]:
    return sorted(number for _, number in backends.resolve(ServicePortReference("default/web", port)).next(9))


def test_endpoints_take_turns_and_each_try_gets_different_ones() -> None:
    backends = _backends(service())
    for each in endpoints(1, 2, 3):
        backends.put_slice(each)
    resolved = backends.resolve(_WEB)
    firsts = [resolved.next(2) for _ in range(6)]
    assert sorted(first[0] for first in firsts) == sorted([(LOOPBACK, number) for number in (1, 2, 3)] * 2)
    assert all(len(set(first)) == 2 for first in firsts)
    assert len(resolved.next(9)) == 3


def test_change_of_a_slice_or_service_counts_at_once() -> None:
    known = {"default/web": service()}
    backends = ServiceBackends()
    backends.look_up(known.get)
    (first,), (second,) = endpoints(1), endpoints(2)
    backends.put_slice(first)
    assert _all(backends) == [1]
    backends.put_slice(second)
    assert _all(backends) == [1, 2]
    backends.remove_slice(first)
    assert _all(backends) == [2]
    known["default/web"] = service(port="other")
    backends.service_changed(known["default/web"])
    assert _all(backends) == []


def test_port_is_found_by_name_or_number_and_endpoints_by_the_name_of_the_port() -> None:
    backends = _backends(service(port="http"))
    for each in (*endpoints(1, port="http"), *endpoints(2, port="metrics")):
        backends.put_slice(each)
    assert _all(backends, 80) == _all(backends, "http") == [1]
    assert backends.resolve(ServicePortReference("default/web", "metrics")).problem is BackendProblem.NO_PORT
    assert backends.resolve(ServicePortReference("default/web", 81)).problem is BackendProblem.NO_PORT


def test_terminating_endpoints_are_used_only_if_there_is_no_ready_one() -> None:
    backends = _backends(service())
    (ready,) = endpoints(1)
    (leaving,) = endpoints(2, ready=False, terminating=True)
    (starting,) = endpoints(3, ready=False)
    for each in (ready, leaving, starting):
        backends.put_slice(each)
    assert _all(backends) == [1]
    backends.remove_slice(ready)
    assert _all(backends) == [2]


@pytest.mark.parametrize("reference", [None, ServicePortReference("default/none", 80)])
def test_backend_that_is_no_service_has_a_problem(reference: ServicePortReference | None) -> None:
    problem = _backends(service()).resolve(reference).problem
    assert problem is (BackendProblem.NO_SERVICE if reference else BackendProblem.NOT_A_SERVICE)


def test_external_names_are_refused_even_with_endpoints() -> None:
    backends = _backends(service(kind="ExternalName"))
    for each in endpoints(1):
        backends.put_slice(each)
    resolved = backends.resolve(_WEB)
    assert resolved.problem is BackendProblem.EXTERNAL
    assert resolved.next(3) == ()
