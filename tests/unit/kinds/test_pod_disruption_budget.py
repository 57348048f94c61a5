"""The rules of PodDisruptionBudgets."""

from typing import Any

import pytest

from pykubelet.kinds.pod_disruption_budget import KIND
from strategy_calls import create, update, update_status

_BUDGETS = KIND.strategy


@pytest.mark.parametrize(
    ("spec", "messages"),
    [
        pytest.param({"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}}, [], id="good"),
        pytest.param(
            {"minAvailable": 1, "maxUnavailable": "10%"},
            [
                'spec: Invalid value: {"MinAvailable":1,"Selector":null,"MaxUnavailable":"10%","UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set'
            ],
            id="both",
        ),
        pytest.param(
            {"maxUnavailable": -1},
            ["spec.maxUnavailable: Invalid value: -1: must be greater than or equal to 0"],
            id="-1",
        ),
        pytest.param(
            {"minAvailable": "101%"},
            ['spec.minAvailable: Invalid value: "101%": must not be greater than 100%'],
            id="more than all",
        ),
        pytest.param(
            {"unhealthyPodEvictionPolicy": "Never"},
            [
                'spec.unhealthyPodEvictionPolicy: Unsupported value: "Never": supported values: "AlwaysAllow", "IfHealthyBudget"'
            ],
            id="policy",
        ),
    ],
)
def test_budget_is_rejected_when_invalid(spec: dict[str, Any], messages: list[str]) -> None:
    """The messages are the API server's, on create and on update."""
    stored, found = create(_BUDGETS, {"spec": spec})
    assert found == messages
    assert stored["status"] == {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}
    empty, _ = create(_BUDGETS, {})
    new, found = update(_BUDGETS, empty, {"spec": spec})
    assert (found, new["metadata"]["generation"]) == (messages, 2)
    assert not _BUDGETS.allows_unconditional_update


def test_budget_status_is_refused_when_its_conditions_are_incomplete() -> None:
    """A condition needs a status, a time and a reason, and its type must be unique."""
    stored, _ = create(_BUDGETS, {})
    good = {"type": "A", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "R", "message": "m"}
    bad = {"type": "A", "status": "Yes", "observedGeneration": -1, "reason": "no no"}
    status = {"conditions": [good, bad, {**good, "type": "B", "reason": ""}], "expectedPods": -1}
    _, messages = update_status(_BUDGETS, stored, {"status": status})
    assert messages == [
        'status.conditions[1].type: Duplicate value: "A"',
        'status.conditions[1].status: Unsupported value: "Yes": supported values: "False", "True", "Unknown"',
        "status.conditions[1].observedGeneration: Invalid value: -1: must be greater than or equal to zero",
        "status.conditions[1].lastTransitionTime: Required value",
        "status.conditions[1].reason: Invalid value: \"no no\": a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')",
        "status.conditions[2].reason: Required value",
        "status.expectedPods: Invalid value: -1: must be greater than or equal to 0",
    ]


def test_budget_status_is_refused_when_a_condition_is_too_long() -> None:
    """Reasons and messages have maximum lengths."""
    stored, _ = create(_BUDGETS, {})
    long = {"type": "A", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"conditions": [{**long, "reason": "R" * 1025, "message": "m" * 32769}]}
    assert update_status(_BUDGETS, stored, {"status": status})[1] == [
        "status.conditions[0].reason: Too long: may not be more than 1024 bytes",
        "status.conditions[0].message: Too long: may not be more than 32768 bytes",
    ]
