"""Validation of the status of a Job."""

from typing import Any

import pytest

from pykubelet.kinds.job import strategy as job
from strategy_calls import POD_SPEC, create, update_status

JOBS = job.KIND.strategy

_START, _END = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
_INDEXED = {"completionMode": "Indexed", "completions": 4, "backoffLimitPerIndex": 1}


def _stored(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None) -> dict[str, Any]:
    template = {"spec": {**POD_SPEC, "restartPolicy": "Never"}}
    stored, messages = create(JOBS, {"kind": "Job", "spec": {"template": template, **(spec or {})}})
    assert messages == []
    return {**stored, "status": status or {}}


def _true(*types: str) -> list[dict[str, Any]]:
    return [{"type": kind, "status": "True"} for kind in types]


_COMPLETE = {
    "conditions": _true("SuccessCriteriaMet", "Complete"),
    "startTime": _START,
    "completionTime": _END,
    "succeeded": 1,
}
_FAILED = {"conditions": _true("FailureTarget", "Failed"), "startTime": _START}

_CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], list[str]]] = {
    "complete": ({}, {"startTime": _START}, _COMPLETE, []),
    "failed": ({}, {"startTime": _START}, _FAILED, []),
    "negative": (
        {},
        {},
        {"active": -1},
        ["status.active: Invalid value: -1: must be greater than or equal to 0"],
    ),
    "uncounted twice": (
        {},
        {},
        {"uncountedTerminatedPods": {"succeeded": ["a", ""], "failed": ["a"]}},
        [
            'status.uncountedTerminatedPods.succeeded[1]: Invalid value: "": must not be empty',
            'status.uncountedTerminatedPods.failed[0]: Duplicate value: "a"',
        ],
    ),
    "complete and failed": (
        {},
        {"startTime": _START},
        {**_COMPLETE, "conditions": _true("SuccessCriteriaMet", "Complete", "Failed", "FailureTarget")},
        [
            "status.conditions: Invalid value: cannot set Complete=True and Failed=true conditions",
            "status.conditions: Invalid value: cannot set Complete=True and FailureTarget=true conditions",
            "status.conditions: Invalid value: cannot set SuccessCriteriaMet=True and Failed=true conditions",
            "status.conditions: Invalid value: cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
        ],
    ),
    "half complete": (
        {},
        {},
        {"conditions": _true("Complete")},
        [
            "status.completionTime: Required value: completionTime is required for Complete jobs",
            "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            "status.startTime: Required value: startTime is required for finished job",
        ],
    ),
    "half failed": (
        {},
        {"startTime": _START},
        {"conditions": _true("Failed"), "active": 1, "terminating": 1},
        [
            "status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition",
            "status.active: Invalid value: 1: active>0 is invalid for finished job",
            "status.terminating: Invalid value: 1: terminating>0 is invalid for finished job",
        ],
    ),
    "time without end": (
        {},
        {"startTime": _END},
        {"completionTime": _START},
        [
            f'status.completionTime: Invalid value: "{_START}": cannot set completionTime when there is no Complete=True condition',
            f'status.completionTime: Invalid value: "{_START}": must be equal to or after `startTime`',
        ],
    ),
    "uncounted at the end": (
        {},
        {"startTime": _START},
        {**_FAILED, "uncountedTerminatedPods": {"failed": ["a"]}},
        [
            'status.uncountedTerminatedPods: Invalid value: {"Succeeded":null,"Failed":["a"]}: must be empty for finished job'
        ],
    ),
    "ready": ({}, {}, {"ready": 1}, ["status.ready: Invalid value: 1: cannot set more ready pods than active"]),
    "indexes": (
        _INDEXED,
        {},
        {"completedIndexes": "0,2-9", "failedIndexes": "x"},
        [
            'status.completedIndexes: Invalid value: "0,2-9": error parsing completedIndexes: too large index: "9"',
            'status.failedIndexes: Invalid value: "x": error parsing failedIndexes: cannot convert string to integer for index: "x"',
        ],
    ),
    "overlap": (
        _INDEXED,
        {},
        {"completedIndexes": "0-2", "failedIndexes": "2"},
        ['status.failedIndexes: Invalid value: "2": failedIndexes and completedIndexes overlap at index: 2'],
    ),
    "indexes of a job without": (
        {},
        {},
        {"completedIndexes": "0", "failedIndexes": ""},
        [
            'status.completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes when non-indexed completion mode',
            'status.failedIndexes: Invalid value: "": cannot set non-null failedIndexes when backoffLimitPerIndex is null',
        ],
    ),
    "counters": (
        {},
        {"failed": 2, "succeeded": 2},
        {"failed": 1, "succeeded": 1},
        [
            "status.failed: Invalid value: 1: cannot decrease the failed counter",
            "status.succeeded: Invalid value: 1: cannot decrease the succeeded counter",
        ],
    ),
    "start": (
        {},
        {"startTime": _START},
        {"startTime": _END},
        ["status.startTime: Required value: startTime cannot be removed for unsuspended job"],
    ),
    "suspended": ({"suspend": True}, {"startTime": _START}, {"startTime": None}, []),
    "resumed": (
        {},
        {"startTime": _START, "conditions": _true("Suspended")},
        {"startTime": _END, "conditions": [{"type": "Suspended", "status": "False"}]},
        [],
    ),
    "undone": (
        {},
        _COMPLETE,
        {"conditions": []},
        [
            f'status.completionTime: Invalid value: "{_END}": cannot set completionTime when there is no Complete=True condition',
            "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
            "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
        ],
    ),
    "another end": (
        {},
        _COMPLETE,
        {"completionTime": "2026-01-01T00:02:00Z"},
        ['status.completionTime: Invalid value: "2026-01-01T00:02:00Z": field is immutable'],
    ),
    "criteria after the end": (
        {},
        {**_COMPLETE, "conditions": _true("Complete")},
        {"conditions": _true("Complete", "SuccessCriteriaMet")},
        [
            "status.conditions: Invalid value: cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        ],
    ),
}


@pytest.mark.parametrize(("spec", "before", "patch", "messages"), _CASES.values(), ids=_CASES.keys())
def test_job_status_is_refused_when_it_contradicts_itself_or_its_past(
    spec: dict[str, Any], before: dict[str, Any], patch: dict[str, Any], messages: list[str]
) -> None:
    """The messages are the API server's; a rule applies only when the fields that it is about change."""
    assert update_status(JOBS, _stored(spec, before), {"status": patch})[1] == messages


def test_job_with_a_success_policy_needs_its_criteria_met() -> None:
    """This holds even when the update does not change the conditions."""
    spec = {"completionMode": "Indexed", "completions": 1, "successPolicy": {"rules": [{"succeededCount": 1}]}}
    stored = _stored(spec, {**_COMPLETE, "conditions": _true("Complete")})
    assert update_status(JOBS, stored, {"status": {"active": 0}})[1] == [
        "status.conditions: Invalid value: cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
    ]


def test_elastic_job_may_lose_successes() -> None:
    """It has as many workers as completions, and may have been scaled down."""
    spec = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
    assert update_status(JOBS, _stored(spec, {"succeeded": 2}), {"status": {"succeeded": 1}})[1] == []
