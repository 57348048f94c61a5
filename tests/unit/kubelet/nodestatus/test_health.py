"""Node health: the problems and pressures that the node status reports."""

from typing import Any

import pytest

from pykubelet.kubelet.nodestatus.conditions import NodePressures, NodeProblems
from pykubelet.kubelet.nodestatus.node_status import NodeHealth


class Around:
    """All inputs of the node's health, set by the test."""

    def __init__(self) -> None:
        self.pleg: str | None = None
        self.runtime = self.network = self.sources = ""
        self.is_ready = True

    def health_error(self) -> str | None:
        return self.pleg

    def all_ready(self) -> bool:
        return self.is_ready

    def warning(self) -> str:
        return self.sources

    def runtime_error(self) -> str:
        return self.runtime

    def network_error(self) -> str:
        return self.network


@pytest.fixture
def around() -> Around:
    return Around()


def health_of(around: Around) -> NodeHealth:
    parts: Any = around
    return NodeHealth(pleg=parts, sources=parts, problems=parts, runtime=around)


def test_node_without_a_problem_is_healthy(around: Around) -> None:
    """It has no errors, no pressures and no volumes in use."""
    health = health_of(around)
    assert (health.runtime_error(), health.network_error(), health.all_sources_ready()) == ("", "", True)
    assert (health.problems(), health.pressures(), health.volumes_in_use()) == (NodeProblems(), NodePressures(), ())


def test_each_problem_is_reported_under_its_kind(around: Around) -> None:
    """A PLEG error comes before the runtime's own error; source problems only warn."""
    around.runtime, around.network, around.sources = "runtime is down", "no network", "bad manifest"
    expected = NodeProblems(runtime=("runtime is down",), network=("no network",), warning="bad manifest")
    assert health_of(around).problems() == expected
    around.pleg, around.is_ready = "pleg has yet to be successful", False
    health = health_of(around)
    assert health.runtime_error() == "PLEG is not healthy: pleg has yet to be successful"
    assert not health.all_sources_ready()


def test_runtime_without_status_is_healthy(around: Around) -> None:
    """Reporting a status is optional for a runtime."""
    parts: Any = around
    health = NodeHealth(pleg=parts, sources=parts, problems=parts)
    assert (health.runtime_error(), health.network_error()) == ("", "")


@pytest.mark.parametrize(
    ("told", "short"),
    [
        ((), NodePressures()),
        (("MemoryPressure", "PIDPressure"), NodePressures(memory=True, pid=True)),
        (("DiskPressure",), NodePressures(disk=True)),
    ],
    ids=["none", "two", "one"],
)
def test_pressures_are_reported_to_heartbeat_and_admission(
    around: Around, told: tuple[str, ...], short: NodePressures
) -> None:
    """The node status gets conditions, admission gets their names, and subscribers are notified at once."""
    health, heard = health_of(around), list[NodePressures]()
    health.on_change(lambda: heard.append(health.pressures()))
    health.note_pressures(told)
    assert (health.pressures(), health.pressure_conditions(), heard) == (short, told, [short])
    assert health.shutdown_message() == ""


def test_node_that_shuts_down_is_not_ready_and_rejects_pods(around: Around) -> None:
    """Subscribers are notified at once; the texts are upstream's."""
    health, heard = health_of(around), list[NodeProblems]()
    health.on_change(lambda: heard.append(health.problems()))
    health.note_shutdown()
    assert heard == [NodeProblems(shutdown=("node is shutting down",))]
    assert health.shutdown_message() == "Pod was rejected as the node is shutting down."
