"""The strategy of Jobs: generated labels, defaults, messages, allowed changes."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.kinds.job import strategy as job
from strategy_calls import POD_SPEC, UID, create, update, update_status

JOBS = job.KIND.strategy

_POD = {**POD_SPEC, "restartPolicy": "Never"}
_OWN_LABELS = {
    "batch.kubernetes.io/controller-uid": UID,
    "batch.kubernetes.io/job-name": "x",
    "controller-uid": UID,
    "job-name": "x",
}
_INDEXED: dict[str, Any] = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}


def _job(*, pod: dict[str, Any] | None = None, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": labels or {}}, "spec": {**_POD, **(pod or {})}}
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template, **spec}}


def test_job_gets_labels_and_a_selector_of_its_own() -> None:
    """A job without labels gets those of its template, including the generated ones."""
    stored, messages = create(JOBS, _job(labels={"a": "b"}))
    assert messages == []
    assert stored["metadata"]["labels"] == {"a": "b", **_OWN_LABELS}
    assert stored["spec"]["template"]["metadata"]["labels"] == {"a": "b", **_OWN_LABELS}
    assert stored["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": UID}}


def test_job_keeps_its_labels_when_it_has_some() -> None:
    """Generated labels are added to the template only."""
    stored, _ = create(JOBS, {**_job(), "metadata": {"labels": {"own": "1"}}})
    assert stored["metadata"]["labels"] == {"own": "1"}
    unlabelled, messages = update(JOBS, stored, {"metadata": {"labels": None}})
    assert (unlabelled["metadata"]["labels"], messages) == (_OWN_LABELS, [])


def test_job_may_choose_its_selector() -> None:
    """No selector and no labels are generated then."""
    stored, messages = create(JOBS, _job(labels={"a": "b"}, manualSelector=True, selector={"matchLabels": {"a": "b"}}))
    assert messages == []
    assert stored["spec"]["template"]["metadata"]["labels"] == {"a": "b"}
    _, messages = create(JOBS, _job(manualSelector=True))
    assert messages == [
        "spec.selector: Required value",
        "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
    ]


def test_job_is_refused_when_its_generated_labels_are_wrong() -> None:
    """A label that the server would generate must have the generated value."""
    _, messages = create(JOBS, _job(labels={"job-name": "other"}, selector={"matchLabels": {"q": "r"}}))
    assert len(messages) == 3
    assert messages[0].startswith("spec.template.metadata.labels[job-name]: Invalid value: {")
    assert messages[0].endswith("}: must be 'x'")
    assert messages[1].endswith(": `selector` not auto-generated")
    assert messages[2].endswith(": `selector` does not match template `labels`")


@pytest.mark.parametrize(
    ("spec", "filled"),
    [
        ({}, {"completions": 1, "parallelism": 1, "backoffLimit": 6, "podReplacementPolicy": "TerminatingOrFailed"}),
        ({"completions": 5}, {"completions": 5, "parallelism": 1}),
        ({"parallelism": 0}, {"completions": None, "parallelism": 0}),
        ({"backoffLimitPerIndex": 1}, {"backoffLimit": 2**31 - 1}),
        ({"podFailurePolicy": {"rules": []}}, {"podReplacementPolicy": "Failed"}),
    ],
    ids=["nothing", "completions", "parallelism", "per index", "failure policy"],
)
def test_job_gets_defaults_when_fields_are_missing(spec: dict[str, Any], filled: dict[str, Any]) -> None:
    """The value of one field can decide the default of another."""
    stored = create(JOBS, _job(**spec))[0]["spec"]
    assert {name: stored.get(name) for name in filled} == filled
    assert (stored["completionMode"], stored["suspend"], stored["manualSelector"]) == ("NonIndexed", False, False)


_CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "negative counts": (
        {"parallelism": -1, "activeDeadlineSeconds": -2},
        [
            "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
            "spec.activeDeadlineSeconds: Invalid value: -2: must be greater than or equal to 0",
        ],
    ),
    "index fields without indexes": (
        {"maxFailedIndexes": 1},
        [
            "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
            "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode",
        ],
    ),
    "indexed without completions": (
        {"completionMode": "Indexed", "parallelism": 200_000},
        [
            "spec.completions: Required value: when completion mode is Indexed",
            "spec.parallelism: Invalid value: 200000: must be less than or equal to 100000 when completion mode is Indexed",
        ],
    ),
    "many indexes": (
        {**_INDEXED, "completions": 100_001, "parallelism": 10_001, "backoffLimitPerIndex": 1},
        [
            "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000",
            "spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index",
        ],
    ),
    "too many failed indexes": (
        {**_INDEXED, "completions": 200_000, "backoffLimitPerIndex": 1, "maxFailedIndexes": 300_000},
        [
            "spec.maxFailedIndexes: Invalid value: 300000: must be less than or equal to completions",
            "spec.maxFailedIndexes: Invalid value: 300000: must be less than or equal to 100000",
            "spec.maxFailedIndexes: Invalid value: 300000: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index",
        ],
    ),
    "unknown mode": (
        {"completionMode": "Some"},
        ['spec.completionMode: Unsupported value: "Some": supported values: "NonIndexed", "Indexed"'],
    ),
    "manager": (
        {"managedBy": "me"},
        ['spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")'],
    ),
    "manager's path": (
        {"managedBy": "a.io/b c"},
        [
            "spec.managedBy: Invalid value: \"b c\": Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')"
        ],
    ),
    "no manager": ({"managedBy": ""}, ["spec.managedBy: Required value"]),
    "long manager": (
        {"managedBy": f"a.io/{'x' * 60}"},
        ["spec.managedBy: Too long: may not be more than 63 bytes"],
    ),
    "replacement": (
        {"podReplacementPolicy": "Now"},
        ['spec.podReplacementPolicy: Unsupported value: "Now": supported values: "Failed", "TerminatingOrFailed"'],
    ),
    "success policy without indexes": (
        {"successPolicy": {"rules": [{"succeededCount": 1}]}},
        [
            'spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":1}]}: requires indexed completion mode'
        ],
    ),
    "empty success policy": (
        {**_INDEXED, "successPolicy": {"rules": []}},
        [
            "spec.successPolicy.rules: Required value: at least one rules must be specified when the successPolicy is specified"
        ],
    ),
    "many success rules": (
        {**_INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "0"}] * 21}},
        ["spec.successPolicy.rules: Too many: 21: must have at most 20 items"],
    ),
    "long success rule": (
        {**_INDEXED, "successPolicy": {"rules": [{"succeededIndexes": f"{'0' * 65536}1"}]}},
        ["spec.successPolicy.rules[0].succeededIndexes: Too long: may not be more than 65536 bytes"],
    ),
    "success rules": (
        {
            **_INDEXED,
            "successPolicy": {
                "rules": [{}, {"succeededIndexes": "2-1"}, {"succeededIndexes": "0-1", "succeededCount": 4}]
            },
        },
        [
            "spec.successPolicy.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified",
            'spec.successPolicy.rules[1].succeededIndexes: Invalid value: "2-1": error parsing succeededIndexes: non-increasing order, previous: 2, current: 1',
            "spec.successPolicy.rules[2].succeededCount: Invalid value: 4: must be less than or equal to 3 (the number of specified completions)",
            "spec.successPolicy.rules[2].succeededCount: Invalid value: 4: must be less than or equal to 2 (the number of indexes in the specified succeededIndexes field)",
        ],
    ),
}


@pytest.mark.parametrize(("spec", "messages"), _CASES.values(), ids=_CASES.keys())
def test_job_is_rejected_when_its_spec_is_invalid(spec: dict[str, Any], messages: list[str]) -> None:
    """The messages are the API server's."""
    assert create(JOBS, _job(**spec))[1] == messages


_EXIT_CODES = {"operator": "In", "values": [1]}
_FAILURE_CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "good": ({"action": "FailJob", "onExitCodes": _EXIT_CODES}, []),
    "default status": ({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}, []),
    "nothing": (
        {},
        [
            '.action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]',
            ": Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
        ],
    ),
    "both": (
        {
            "action": "Panic",
            "onExitCodes": _EXIT_CODES,
            "onPodConditions": [{"type": "A", "status": "Maybe"}],
        },
        [
            '.action: Unsupported value: "Panic": supported values: "Count", "FailIndex", "FailJob", "Ignore"',
            '.onPodConditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"',
            ": Invalid value: specifying both OnExitCodes and OnPodConditions is not supported",
        ],
    ),
    "fail index": (
        {"action": "FailIndex", "onExitCodes": _EXIT_CODES},
        ['.action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set'],
    ),
    "unknown operator": (
        {"action": "Count", "onExitCodes": {"operator": "Is", "values": list(range(256))}},
        [
            '.onExitCodes.operator: Unsupported value: "Is": supported values: "In", "NotIn"',
            ".onExitCodes.values: Too many: 256: must have at most 255 items",
        ],
    ),
    "many conditions": (
        {"action": "Count", "onPodConditions": [{"type": "A"}] * 21},
        [".onPodConditions: Too many: 21: must have at most 20 items"],
    ),
    "exit codes": (
        {"action": "Count", "onExitCodes": {"operator": "In", "values": [2, 0, 2], "containerName": "z"}},
        [
            '.onExitCodes.containerName: Invalid value: "z": must be one of the container or initContainer names in the pod template',
            ".onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
            ".onExitCodes.values[2]: Duplicate value: 2",
            ".onExitCodes.values: Invalid value: [2,0,2]: must be ordered",
        ],
    ),
    "no exit codes": (
        {"action": "Count", "onExitCodes": {}},
        [
            '.onExitCodes.operator: Required value: valid values: ["In" "NotIn"]',
            ".onExitCodes.values: Invalid value: null: at least one value is required",
        ],
    ),
}


@pytest.mark.parametrize(("rule", "messages"), _FAILURE_CASES.values(), ids=_FAILURE_CASES.keys())
def test_job_is_rejected_when_its_failure_policy_is_invalid(rule: dict[str, Any], messages: list[str]) -> None:
    """The messages are the API server's; the default status of a condition is True."""
    found = create(JOBS, _job(podFailurePolicy={"rules": [rule]}))[1]
    assert [text.removeprefix("spec.podFailurePolicy.rules[0]") for text in found] == messages


def test_job_is_refused_when_its_failure_policy_has_too_many_rules() -> None:
    """The rules are for indexes, which is valid with backoffLimitPerIndex."""
    rule = {"action": "FailIndex", "onExitCodes": _EXIT_CODES}
    document = _job(**_INDEXED, backoffLimitPerIndex=1, podFailurePolicy={"rules": [rule] * 21})
    assert create(JOBS, document)[1] == ["spec.podFailurePolicy.rules: Too many: 21: must have at most 20 items"]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (None, 'Required value: valid values: "OnFailure", "Never"'),
        (
            "Sometimes",
            'Unsupported value: "Sometimes": supported values: "OnFailure", "Never"',
        ),
        ("OnFailure", 'Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified'),
    ],
)
def test_job_is_refused_when_its_restart_policy_is_not_allowed(policy: str | None, message: str) -> None:
    """A job's pods must end; with a failure policy the kubelet must not restart failed containers."""
    found = create(JOBS, _job(pod={"restartPolicy": policy}, podFailurePolicy={"rules": []}))[1]
    assert found[-1] == f"spec.template.spec.restartPolicy: {message}"


def test_indexed_job_is_refused_when_its_pods_could_have_no_host_name() -> None:
    """The pod name with the last index would be too long for a host name."""
    name = "a" * 62
    document = {**_job(**_INDEXED), "metadata": {"name": name}}
    assert create(JOBS, document)[1] == [
        f'metadata.name: Invalid value: "{name}": will not able to create pod with invalid DNS label: {name}-2'
    ]


_CHANGES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "parallelism": ({"parallelism": 7, "suspend": True, "ttlSecondsAfterFinished": 5, "backoffLimit": 0}, []),
    "completions": ({"completions": 2}, ["spec.completions: Invalid value: 2: field is immutable"]),
    "no completions": ({"completions": None}, ["spec.completions: Invalid value: null: field is immutable"]),
    "mode": (
        {"completionMode": "Indexed"},
        ['spec.completionMode: Invalid value: "Indexed": field is immutable'],
    ),
    "manager": (
        {"managedBy": "a.io/b"},
        ['spec.managedBy: Invalid value: "a.io/b": field is immutable'],
    ),
    "failure policy": (
        {"podFailurePolicy": {"rules": []}, "podReplacementPolicy": "Failed"},
        ['spec.podFailurePolicy: Invalid value: {"Rules":[]}: field is immutable'],
    ),
}


@pytest.mark.parametrize(("patch", "messages"), _CHANGES.values(), ids=_CHANGES.keys())
def test_job_update_may_change_only_some_fields(patch: dict[str, Any], messages: list[str]) -> None:
    """Most fields of a job are immutable."""
    stored, _ = create(JOBS, _job())
    new, found = update(JOBS, stored, {"spec": patch})
    assert found == messages
    assert new["metadata"]["generation"] == 2


def test_indexed_job_may_be_scaled_when_parallelism_changes_too() -> None:
    """Completions may change only together with parallelism."""
    stored, _ = create(JOBS, _job(**_INDEXED))
    assert update(JOBS, stored, {"spec": {"completions": 2, "parallelism": 2}})[1] == []
    assert update(JOBS, stored, {"spec": {"completions": 2}})[1] == [
        "spec.completions: Invalid value: 2: can only be modified in tandem with spec.parallelism"
    ]


def _template(pod: dict[str, Any], labels: dict[str, str] | None = None) -> dict[str, Any]:
    return {"spec": {"template": {"spec": pod, "metadata": {"labels": labels or {}}}}}


@pytest.mark.parametrize(
    ("pod", "is_allowed"),
    [
        ({"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}, True),
        ({"schedulingGates": [{"name": "a.io/b"}], "affinity": {"nodeAffinity": {}}}, True),
        ({"affinity": {"podAffinity": {}}}, False),
        ({"affinity": None}, True),
        ({"dnsPolicy": "Default"}, False),
    ],
    ids=["selector", "gates", "pod affinity", "no affinity", "other fields"],
)
def test_suspended_job_may_change_where_its_pods_run_until_it_starts(pod: dict[str, Any], is_allowed: bool) -> None:
    """Queueing controllers change these fields before a job starts."""
    stored, _ = create(JOBS, _job(suspend=True, pod={"affinity": {"nodeAffinity": {}}}))
    messages = update(JOBS, stored, _template(pod, {"more": "labels"}))[1]
    assert (messages == []) == is_allowed
    started, _ = update_status(JOBS, stored, {"status": {"startTime": "2026-01-01T00:00:00Z"}})
    assert update(JOBS, started, _template(pod, {"more": "labels"}))[1] != []


def test_job_can_be_selected_by_its_successes() -> None:
    """The field selector is status.successful, and the status field succeeded."""
    stored, _ = create(JOBS, _job())
    assert JOBS.fields(stored)["status.successful"] == "0"
    assert JOBS.fields({**stored, "status": {"succeeded": 3}})["status.successful"] == "3"


@given(
    completions=st.integers(1, 1000),
    parallelism=st.integers(0, 1000),
    limit=st.integers(0, 100),
    restart=st.sampled_from(["Never", "OnFailure"]),
    mode=st.sampled_from(["Indexed", "NonIndexed"]),
)
@settings(max_examples=30, deadline=None)
def test_valid_job_is_accepted(completions: int, parallelism: int, limit: int, restart: str, mode: str) -> None:
    """A job with such values gives no messages, neither when it is created nor when it is sent again."""
    spec: dict[str, Any] = {
        "completions": completions,
        "parallelism": parallelism,
        "backoffLimit": limit,
        "completionMode": mode,
    }
    stored, messages = create(JOBS, _job(pod={"restartPolicy": restart}, **spec))
    assert messages == []
    assert update(JOBS, stored, {}) == (stored, [])
