"""What a node says of its own state."""

import pytest

from pykubelet.agent.health import AdmissionConditions, NodeHealth
from pykubelet.agent.heartbeat import Pressures, Problems


class Around:
    """Everything a node's health depends on, as a test wants it."""

    def __init__(self) -> None:
        self.pleg: str | None = None
        self.runtime = self.network = self.sources = ""
        self.is_ready = True

    def complaint(self) -> str | None:
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
    return NodeHealth(watchdog=around, sources=around, warnings=around, runtime=around)


def test_node_without_a_problem_is_healthy(around: Around) -> None:
    """Nothing to say, nothing short, no volume attached."""
    health = health_of(around)
    assert (health.runtime_error(), health.network_error(), health.all_sources_ready()) == ("", "", True)
    assert (health.problems(), health.pressures(), health.volumes_in_use()) == (Problems(), Pressures(), ())


def test_every_problem_is_told_where_it_belongs(around: Around) -> None:
    """The watchdog's words come before the runtime's own; those about sources only warn."""
    around.runtime, around.network, around.sources = "runtime is down", "no network", "bad manifest"
    expected = Problems(runtime=("runtime is down",), network=("no network",), warning="bad manifest")
    assert health_of(around).problems() == expected
    around.pleg, around.is_ready = "pleg has yet to be successful", False
    health = health_of(around)
    assert health.runtime_error() == "PLEG is not healthy: pleg has yet to be successful"
    assert not health.all_sources_ready()


def test_runtime_that_says_nothing_of_itself_is_well(around: Around) -> None:
    """A runtime need not have words for its state."""
    health = NodeHealth(watchdog=around, sources=around, warnings=around)
    assert (health.runtime_error(), health.network_error()) == ("", "")


@pytest.mark.parametrize(
    ("short", "named"),
    [(Pressures(), ()), (Pressures(memory=True, pid=True), ("MemoryPressure", "PIDPressure"))],
    ids=["none", "two"],
)
def test_admission_hears_of_pressures_by_name(
    around: Around, monkeypatch: pytest.MonkeyPatch, short: Pressures, named: tuple[str, ...]
) -> None:
    """By the names of the node's conditions."""
    health = health_of(around)
    monkeypatch.setattr(health, "pressures", lambda: short)
    conditions = AdmissionConditions(health=health, app_armor_error="not here")
    assert conditions.pressures() == named
    assert (conditions.app_armor_error(), conditions.shutdown_message()) == ("not here", "")
