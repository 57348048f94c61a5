"""Cases 1.10-30 to 1.10-42: predicates, constants, times and the order of statuses."""

from collections.abc import Mapping
from typing import Any

import pytest

from pykubelet.api import pods as predicates
from pykubelet.api.generated.core import Container, ContainerStatus, Pod
from pykubelet.api.pods import CONFIG_MIRROR, CONFIG_SOURCE, is_static_pod
from pykubelet.api.times import format_seen_time, parse_seen_time
from pykubelet.kubelet.status.container_statuses import init_statuses_in_order, sort_init_statuses
from pykubelet.kubelet.types import sync_type_name, validated_sources
from pykubelet.testing.build import container, pod


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param([""], (), id="1.10-30 empty name"),
        pytest.param(["file", "api"], ("file", "api"), id="1.10-30 two"),
        pytest.param(["*"], ("file", "http", "api"), id="1.10-30 all"),
        pytest.param(["file", "*", "unknown"], ("file", "http", "api"), id="1.10-30 all at once"),
    ],
)
def test_sources_are_validated(names: list[str], expected: tuple[str, ...]) -> None:
    assert validated_sources(names) == expected


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(["unknown"], id="1.10-30 unknown"),
        pytest.param(["file", "unknown", "*"], id="1.10-30 unknown before all"),
    ],
)
def test_sources_are_refused(names: list[str]) -> None:
    with pytest.raises(ValueError, match=r'^unknown pod source "unknown"$'):
        validated_sources(names)


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({CONFIG_SOURCE: "host-ipc-sources"}, "host-ipc-sources", id="1.10-31 verbatim"),
        pytest.param({"other": "x"}, None, id="1.10-31 no source"),
        pytest.param({}, None, id="1.10-31 no annotations"),
    ],
)
def test_pod_source(annotations: Mapping[str, str], expected: str | None) -> None:
    asked = pod(uid="u1", annotations=annotations)
    if expected is None:
        with pytest.raises(ValueError, match=r'^cannot get source of pod "u1"$'):
            predicates.pod_source(asked)
    else:
        assert predicates.pod_source(asked) == expected


@pytest.mark.parametrize(
    ("number", "name"),
    [
        pytest.param(number, name, id=f"1.10-32 {name}")
        for number, name in ((0, "sync"), (1, "update"), (2, "create"), (3, "kill"), (50, "unknown"))
    ],
)
def test_sync_type_has_a_name(number: int, name: str) -> None:
    assert sync_type_name(number) == name


@pytest.mark.parametrize(
    ("source", "expected"),
    [pytest.param(s, e, id=f"1.10-33 {s}") for s, e in (("file", True), ("http", True), ("api", False))],
)
def test_static_pod(source: str, *, expected: bool) -> None:
    assert is_static_pod(pod(annotations={CONFIG_SOURCE: source})) is expected


def marked(source: str = "", priority: int | None = None, *, mirror: bool = False, class_name: str = "") -> Pod:
    annotations = {CONFIG_SOURCE: source} if source else {}
    annotations |= {CONFIG_MIRROR: ""} if mirror else {}
    return pod(annotations=annotations, priority=priority, priority_class_name=class_name)


CRITICAL: dict[str, tuple[dict[str, Any], bool]] = {
    "static": ({"source": "file"}, True),
    "mirror": ({"mirror": True}, True),
    "system critical": ({"priority": 2_000_000_000}, True),
    "node critical": ({"priority": 2_000_001_000}, True),
    "api": ({"source": "api"}, False),
    "nothing": ({}, False),
}


@pytest.mark.parametrize(
    ("fields", "expected"), [pytest.param(*row, id=f"1.10-34 {name}") for name, row in CRITICAL.items()]
)
def test_critical_pod(fields: Mapping[str, Any], *, expected: bool) -> None:
    assert predicates.is_critical_pod(marked(**fields)) is expected


@pytest.mark.parametrize(
    ("fields", "expected"), [pytest.param(*row, id=f"1.10-37 {name}") for name, row in CRITICAL.items()]
)
def test_node_critical_pod(fields: Mapping[str, Any], *, expected: bool) -> None:
    assert predicates.is_node_critical_pod(marked(**fields, class_name="system-node-critical")) is expected
    assert predicates.is_node_critical_pod(marked(**fields)) is False


LOW, HIGH = 2_000_000_000, 2_000_001_000


@pytest.mark.parametrize(
    ("preemptor", "preemptee", "expected"),
    [
        pytest.param(marked("file"), marked(), True, id="1.10-35 static over plain"),
        pytest.param(marked("file", HIGH), marked("file", LOW), True, id="1.10-35 static by priority"),
        pytest.param(marked("api", HIGH), marked("file", LOW), True, id="1.10-35 api over static by priority"),
        pytest.param(marked("file", LOW), marked("file", HIGH), False, id="1.10-35 lower priority"),
        pytest.param(marked("file"), marked("file"), False, id="1.10-35 no priorities"),
        pytest.param(marked("file", LOW), marked("file", LOW), False, id="1.10-35 equal priorities"),
    ],
)
def test_preemption(preemptor: Pod, preemptee: Pod, *, expected: bool) -> None:
    assert predicates.may_preempt(preemptor, preemptee) is expected


@pytest.mark.parametrize(
    ("priority", "expected"),
    [pytest.param(2_000_000_000, True, id="1.10-36 system"), pytest.param(1_000_000_000, False, id="1.10-36 user")],
)
def test_critical_by_priority(priority: int, *, expected: bool) -> None:
    assert predicates.is_critical_by_priority(priority) is expected


PLAIN, SIDECAR = container("plain"), container("sidecar", restart_policy="Always")


@pytest.mark.parametrize(
    ("init_containers", "expected"),
    [
        pytest.param((), False, id="1.10-38 none"),
        pytest.param((PLAIN, PLAIN), False, id="1.10-38 plain, no policy"),
        pytest.param((SIDECAR,), True, id="1.10-38 one sidecar"),
        pytest.param((SIDECAR, SIDECAR), True, id="1.10-38 two sidecars"),
        pytest.param((PLAIN, SIDECAR, PLAIN), True, id="1.10-38 mixed"),
    ],
)
def test_restartable_init_container(init_containers: tuple[Container, ...], *, expected: bool) -> None:
    assert predicates.has_restartable_init_container(pod(init_containers=init_containers)) is expected


OWNED = ("PodScheduled", "Ready", "Initialized", "ContainersReady", "PodReadyToStartContainers")


@pytest.mark.parametrize(
    ("condition", "owned", "shared"),
    [
        *(pytest.param(name, True, False, id=f"1.10-39 {name}") for name in OWNED),
        pytest.param("DisruptionTarget", False, True, id="1.10-39 DisruptionTarget"),
        pytest.param("abcd", False, False, id="1.10-39 abcd"),
        pytest.param("Unschedulable", False, False, id="1.10-39 Unschedulable"),
    ],
)
def test_condition_ownership(condition: str, *, owned: bool, shared: bool) -> None:
    assert (condition in predicates.OWNED_CONDITIONS) is owned
    assert (condition in predicates.SHARED_CONDITIONS) is shared


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        pytest.param(text, printed or text, id=f"1.10-40 {text!r}")
        for text, printed in (
            ("2017-02-17T15:34:49.830882016+08:00", ""),
            ("2017-02-17T15:34:49.830882016Z", ""),
            ("2017-02-17T15:34:49.830882016-05:30", ""),
            ("2017-02-17T15:34:49+00:00", "2017-02-17T15:34:49.000000000Z"),
            ("2017-02-17T15:34:49.5Z", "2017-02-17T15:34:49.500000000Z"),
            ("2017-02-30T15:34:49Z", "0001-01-01T00:00:00.000000000Z"),
            ("yesterday", "0001-01-01T00:00:00.000000000Z"),
        )
    ],
)
def test_seen_time_round_trip(text: str, printed: str) -> None:
    assert format_seen_time(*parse_seen_time(text)) == printed


SPEC = pod(init_containers=tuple(container(name) for name in ("first", "second", "third", "fourth")))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param("second first fourth third", "first second third fourth", id="1.10-41 all"),
        pytest.param("fourth first", "first fourth", id="1.10-41 some"),
        pytest.param("first third", "first third", id="1.10-41 in order already"),
        pytest.param("x second y first", "first second y x", id="1.10-41 unknown names end where the swaps leave them"),
    ],
)
def test_init_statuses_are_sorted(names: str, expected: str) -> None:
    statuses = [ContainerStatus(name=name) for name in names.split()]
    assert [status.name for status in sort_init_statuses(SPEC, statuses)] == expected.split()


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param("fourth third first", "first third fourth", id="1.10-42 one missing"),
        pytest.param("fourth other first", "first fourth", id="1.10-42 one not in the spec"),
    ],
)
def test_init_statuses_are_picked_in_order(names: str, expected: str) -> None:
    by_name = {name: ContainerStatus(name=name) for name in names.split()}
    assert [status.name for status in init_statuses_in_order(SPEC, by_name)] == expected.split()
