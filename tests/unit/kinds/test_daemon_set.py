"""The rules of DaemonSets and ControllerRevisions."""

from typing import Any

import pytest

from pykubelet.api.errors import BadRequest
from pykubelet.kinds import controller_revision, daemon_set
from pykubelet.kinds.daemon_set import TEMPLATE_GENERATION
from strategy_calls import SELECTOR, TEMPLATE, create, update, update_status

CONTROLLER_REVISIONS = controller_revision.KIND.strategy
DAEMON_SETS = daemon_set.KIND.strategy

_SPEC = {"selector": SELECTOR, "template": TEMPLATE}
_DAEMON_SET = {"apiVersion": "apps/v1", "kind": "DaemonSet", "spec": _SPEC}


def _template_generation(document: dict[str, Any]) -> str:
    text: str = document["metadata"]["annotations"][TEMPLATE_GENERATION]
    return text


def test_daemon_set_counts_changes_of_its_template_apart_from_its_generation() -> None:
    """Only a change of the pod template increments both."""
    stored, messages = create(DAEMON_SETS, _DAEMON_SET)
    assert (stored["metadata"]["generation"], _template_generation(stored), messages) == (1, "1", [])
    limited, messages = update(DAEMON_SETS, stored, {"spec": {"minReadySeconds": 3}})
    assert (limited["metadata"]["generation"], _template_generation(limited), messages) == (2, "1", [])
    relabelled, messages = update(
        DAEMON_SETS, limited, {"spec": {"template": {"metadata": {"labels": {"a": "b", "n": "1"}}}}}
    )
    assert (relabelled["metadata"]["generation"], _template_generation(relabelled), messages) == (3, "2", [])


def test_daemon_set_keeps_its_template_generation_when_a_request_sets_it() -> None:
    """Neither endpoint changes that of a stored object; a new object may start with any value above zero."""
    stored, _ = create(DAEMON_SETS, {**_DAEMON_SET, "metadata": {"annotations": {TEMPLATE_GENERATION: "5"}}})
    patch = {"metadata": {"annotations": {TEMPLATE_GENERATION: "9"}}}
    assert _template_generation(stored) == "5"
    assert _template_generation(update(DAEMON_SETS, stored, patch)[0]) == "5"
    assert _template_generation(update_status(DAEMON_SETS, stored, patch)[0]) == "5"
    with pytest.raises(BadRequest, match=r'strconv.ParseInt: parsing "many": invalid syntax'):
        update(DAEMON_SETS, stored, {"metadata": {"annotations": {TEMPLATE_GENERATION: "many"}}})


@pytest.mark.parametrize(
    ("spec", "messages"),
    [
        pytest.param(
            {"selector": None},
            [
                'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`',
            ],
            id="no selector",
        ),
        pytest.param(
            {"selector": {}},
            ["spec.selector: Invalid value: {}: empty selector is invalid for daemonset"],
            id="empty selector",
        ),
        pytest.param(
            {"updateStrategy": {"type": "Never"}},
            [
                'spec.updateStrategy: Unsupported value: {"Type":"Never","RollingUpdate":null}: supported values: "RollingUpdate", "OnDelete"'
            ],
            id="unknown strategy",
        ),
        pytest.param(
            {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}},
            [
                "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
            ],
            id="no room",
        ),
        pytest.param(
            {"updateStrategy": {"rollingUpdate": {"maxSurge": "50%"}}},
            [
                'spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: "50%": may not be set when maxUnavailable is non-zero'
            ],
            id="both",
        ),
        pytest.param({"updateStrategy": {"type": "OnDelete"}}, [], id="on delete"),
    ],
)
def test_daemon_set_is_rejected_when_its_spec_is_invalid(spec: dict[str, Any], messages: list[str]) -> None:
    """The messages are the API server's."""
    assert create(DAEMON_SETS, {**_DAEMON_SET, "spec": {**_SPEC, **spec}})[1] == messages


def test_daemon_set_is_refused_when_its_selector_changes() -> None:
    """The error about the change comes first."""
    stored, _ = create(DAEMON_SETS, _DAEMON_SET)
    _, messages = update(DAEMON_SETS, stored, {"spec": {"selector": {"matchLabels": {"a": "c"}}}})
    assert messages == [
        'spec.selector: Invalid value: {"matchLabels":{"a":"c"}}: field is immutable',
        'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`',
    ]


def test_daemon_set_status_is_refused_when_a_count_is_negative() -> None:
    """Each count in the status is validated."""
    stored, _ = create(DAEMON_SETS, _DAEMON_SET)
    _, messages = update_status(DAEMON_SETS, stored, {"status": {"numberReady": -1, "collisionCount": -1}})
    assert messages == [
        "status.numberReady: Invalid value: -1: must be greater than or equal to 0",
        "status.collisionCount: Invalid value: -1: must be greater than or equal to 0",
    ]


@pytest.mark.parametrize(
    ("fields", "messages"),
    [
        ({"revision": 1, "data": {"a": 1}}, []),
        ({"revision": 1}, ["data: Required value: data is mandatory"]),
        ({"revision": 1, "data": [1]}, ["data: Required value: data must be a valid JSON object"]),
        (
            {"revision": -1, "data": {}},
            ["revision: Invalid value: -1: must be greater than or equal to 0"],
        ),
    ],
    ids=["good", "no data", "a list", "negative"],
)
def test_controller_revision_needs_data_and_a_revision(fields: dict[str, Any], messages: list[str]) -> None:
    """Its data can be any object."""
    assert create(CONTROLLER_REVISIONS, fields)[1] == messages


def test_controller_revision_is_refused_when_its_data_changes() -> None:
    stored, _ = create(CONTROLLER_REVISIONS, {"revision": 1, "data": {"a": 1}})
    _, messages = update(CONTROLLER_REVISIONS, stored, {"data": {"a": 2}, "revision": 2})
    assert messages == ['data: Invalid value: {"a":2}: field is immutable']
