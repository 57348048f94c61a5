"""The live view: pods as lines on a terminal."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.cli.printers.live_view import live_table


def pod(name: str, *, ready: bool = True, reason: str = "") -> dict[str, Any]:
    state: dict[str, Any] = {"waiting": {"reason": reason}} if reason else {"running": {}}
    status = {"name": "main", "ready": ready, "restartCount": 2, "state": state}
    finished = {"terminated": {"finishedAt": "2026-01-01T00:00:00Z"}}
    return {
        "metadata": {"namespace": "default", "name": name},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"phase": "Running", "containerStatuses": [{**status, "lastState": finished}]},
    }


def test_live_table_has_a_header_and_a_line_for_each_pod() -> None:
    """Pods are sorted by name, and no column changes with time alone."""
    assert live_table([pod("b"), pod("a")], 80, 24) == [
        ("NAMESPACE   NAME   READY   STATUS    RESTARTS", ""),
        ("default     a      1/1     Running   2", "green"),
        ("default     b      1/1     Running   2", "green"),
    ]


@pytest.mark.parametrize(
    ("shown", "colour"),
    [
        (pod("a"), "green"),
        (pod("a", ready=False), "yellow"),
        (pod("a", ready=False, reason="ContainerCreating"), "yellow"),
        (pod("a", ready=False, reason="ImagePullBackOff"), "red"),
        (pod("a", ready=False, reason="Completed"), "green"),
        ({**pod("a"), "status": {"phase": "Pending"}}, "yellow"),
    ],
)
def test_colour_shows_the_state_of_the_pod(shown: dict[str, Any], colour: str) -> None:
    """Green is healthy, yellow is in transition, red needs attention."""
    assert live_table([shown], 80, 24)[1][1] == colour


def test_unhealthy_pods_come_first_when_space_is_short() -> None:
    """The pods left out are counted."""
    pods = [*(pod(f"well-{number:02}") for number in range(30)), pod("zz", ready=False, reason="CrashLoopBackOff")]
    lines = [line for line, _ in live_table(pods, 80, 10)]
    assert len(lines) == 6
    assert "zz" in lines[-2]
    assert lines[-1] == "... and 27 more"


@given(st.lists(st.text(max_size=20), max_size=30), st.integers(0, 100), st.integers(1, 40))
def test_live_table_fits_the_screen(names: list[str], columns: int, rows: int) -> None:
    """No line is wider than the screen, and the table takes at most about half its height."""
    lines = live_table([pod(name) for name in names], columns, rows)
    assert all(len(line) < max(columns, 1) or not line for line, _ in lines)
    assert len(lines) <= max(3, rows // 2) + 1
