"""Errors that a kubelet returns instead of a log become a Status in upstream's words."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.apiserver.podproxy.handler import is_log_error, log_error

WAITS = 'container "main" in pod "web" is waiting to start: ContainerCreating'
ABOUT = {"name": "web", "kind": "pods/log"}


@pytest.mark.parametrize(
    ("code", "text", "reason", "message", "details"),
    [
        pytest.param(400, WAITS, "BadRequest", WAITS, None, id="waits"),
        pytest.param(
            500,
            "disk",
            "InternalError",
            "Internal error occurred: disk",
            {"causes": [{"message": "disk"}]},
            id="failed",
        ),
        pytest.param(
            404,
            'pod "web" not found',
            "NotFound",
            "the server could not find the requested resource ( pods/log web)",
            ABOUT,
            id="unknown-pod",
        ),
        pytest.param(
            401,
            "Unauthorized",
            "Unauthorized",
            "the server has asked for the client to provide credentials ( pods/log web)",
            ABOUT,
            id="unknown-caller",
        ),
        pytest.param(403, "no (user=x)", "Forbidden", "no (user=x) ( pods/log web)", ABOUT, id="not-allowed"),
        pytest.param(
            502,
            'a "gateway"',
            "InternalError",
            'an error on the server ("a \\"gateway\\"") has prevented the request from succeeding ( pods/log web)',
            ABOUT,
            id="another-failure",
        ),
        pytest.param(
            302,
            "elsewhere",
            None,
            "the server responded with the status code 302 but did not return more information ( pods/log web)",
            ABOUT,
            id="led-astray",
        ),
    ],
)
def test_refusal_of_a_node_becomes_a_status(
    code: int, text: str, reason: str | None, message: str, details: Any
) -> None:
    """The message is the node's where upstream passes it on, and upstream's own otherwise."""
    status = log_error(code, text, "web").to_status()
    assert (status.get("reason"), status["message"], status.get("details")) == (reason, message, details)


@given(st.integers(0, 999), st.text(max_size=30))
def test_every_code_is_a_log_or_a_failure(code: int, text: str) -> None:
    """Any answer of a node gives a log, or a Status of failure with an error code."""
    if is_log_error(code):
        status = log_error(code, text, "web").to_status()
        assert status["status"] == "Failure"
        assert status["message"]
        assert status["code"] >= 400
    else:
        assert 200 <= code <= 206
