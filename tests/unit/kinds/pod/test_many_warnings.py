"""Warnings about pairs of ports or files: all those that are sent, in time that grows with the list only."""

import itertools
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.apiserver.handlers.responsewriters import warning_headers
from pykubelet.kinds.kind import as_many_as_sent
from pykubelet.kinds.pod.warnings import pod_volume_warnings, port_warnings
from pykubelet.testing.local_api import local_api
from verb_requests import Asker, pod

_PORTS = st.fixed_dictionaries(
    {"containerPort": st.sampled_from([80, 81])},
    optional={
        "hostPort": st.sampled_from([0, 8080, 8081]),
        "hostIP": st.sampled_from(["", "10.0.0.1", "10.0.0.2"]),
        "protocol": st.sampled_from(["TCP", "UDP"]),
    },
)
_PATHS = st.lists(st.lists(st.sampled_from(["a", "b", "ab", ""]), max_size=4).map("/".join), max_size=9)


def _address(port: dict[str, Any]) -> tuple[Any, ...]:
    return port["containerPort"], port.get("protocol", ""), port.get("hostPort", 0), port.get("hostIP", "")


def _collision(one: dict[str, Any], two: dict[str, Any]) -> str:
    """Upstream's rule about a pair of ports."""
    (number, protocol, port, ip), (other_number, other_protocol, other_port, other_ip) = _address(one), _address(two)
    if (number, protocol) != (other_number, other_protocol):
        return ""
    if (port, ip) == (other_port, other_ip):
        return "duplicate port definition"
    if not port or not other_port:
        return "overlapping port definition"
    return "dangerously ambiguous port definition" if port == other_port and not (ip and other_ip) else ""


@given(st.lists(_PORTS, min_size=2, max_size=9))
def test_ports_are_compared_with_all_earlier_ones(ports: list[dict[str, Any]]) -> None:
    """The pairs and their order are those of comparing each port with each earlier one."""
    path = "spec.containers[0].ports"
    expected = [
        f"{path}[{index}]: {text} with {path}[{earlier}]"
        for index, port in enumerate(ports)
        for earlier in range(index)
        if (text := _collision(port, ports[earlier]))
    ]
    found = port_warnings({"containers": [{"ports": ports}]}, "spec")
    shown = [warning for warning in found if "hostIP set" not in warning]
    assert warning_headers(shown) == warning_headers(expected)


@given(_PATHS)
def test_files_are_compared_with_all_earlier_ones(paths: list[str]) -> None:
    """The pairs and their order are those of comparing each file with each earlier one."""
    files = [path.rstrip("/") for path in paths]
    expected = [
        f'volume "v" (Secret "s"): overlapping paths: "{file}" with "{other}"'
        for index, file in enumerate(files)
        for other in files[:index]
        if file and other and (f"{file}/".startswith(f"{other}/") or f"{other}/".startswith(f"{file}/"))
    ]
    items = [{"key": "k", "path": path} for path in paths]
    found = pod_volume_warnings([{"name": "v", "secret": {"secretName": "s", "items": items}}], "spec.volumes")
    assert warning_headers(found) == warning_headers(expected)


@given(st.lists(st.text("ab", min_size=1, max_size=600).map(lambda text: text * 5), max_size=60))
def test_warnings_that_are_not_computed_would_not_be_sent(texts: list[str]) -> None:
    """The response is the same as if all were computed."""
    assert warning_headers(as_many_as_sent(texts)) == warning_headers(texts)


def test_warnings_are_not_computed_beyond_those_that_are_sent() -> None:
    """An endless number of them ends."""
    assert len(list(as_many_as_sent(f"warning {number}" for number in itertools.count()))) < 500


def _items(count: int, *, equal: bool) -> list[dict[str, str]]:
    return [{"key": "k", "path": "a" if equal else f"a{number}"} for number in range(count)]


def _projected(count: int) -> dict[str, Any]:
    sources = [{"secret": {"name": "s", "items": [{"key": "k", "path": f"a{number}"}]}} for number in range(count)]
    return {"volumes": [{"name": "v", "projected": {"sources": sources}}]}


def _spread(count: int) -> list[dict[str, Any]]:
    constraint = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    return [{**constraint, "topologyKey": f"k{number}"} for number in range(count)]


_COUNT = 10_000
_ATTACKS: dict[str, dict[str, Any]] = {
    "equal ports": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}] * 5_000}]},
    "host ports of different addresses": {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "ports": [
                    {"containerPort": 80, "hostPort": 80, "hostIP": f"10.0.{n >> 8}.{n & 255}"} for n in range(5_000)
                ],
            }
        ]
    },
    "equal items": {"volumes": [{"name": "v", "secret": {"secretName": "s", "items": _items(_COUNT, equal=True)}}]},
    "different items": {
        "volumes": [{"name": "v", "secret": {"secretName": "s", "items": _items(_COUNT, equal=False)}}]
    },
    "projected sources": _projected(_COUNT),
    "spread constraints": {"topologySpreadConstraints": _spread(_COUNT)},
}


@pytest.mark.parametrize("name", _ATTACKS)
async def test_pod_with_thousands_of_pairs_takes_little_memory(tmp_path: Path, name: str) -> None:
    """A dry run of a pod whose pairs would take a minute and gigabytes."""
    body = json.dumps(pod("web", **_ATTACKS[name])).encode()
    async with local_api(tmp_path) as api:
        asker = Asker(api)
        tracemalloc.start()
        try:
            answer = await asker.answer("POST", "/api/v1/namespaces/default/pods?dryRun=All", body)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert answer.code == 201
    assert sum(len(text) for _, text in warning_headers(answer.warnings)) < 10_000
    assert peak < 64 * 1024 * 1024, "the document takes 5 to 20 MB"
