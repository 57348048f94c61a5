"""Events written to the log of a node that has no API server."""

import logging

import pytest

from pykubelet.api.generated.core import ObjectReference
from pykubelet.client.recorder import NORMAL, WARNING, LogRecorder


@pytest.mark.parametrize(("event_type", "level"), [(NORMAL, logging.INFO), (WARNING, logging.WARNING)])
def test_event_is_logged_at_its_level(caplog: pytest.LogCaptureFixture, event_type: str, level: int) -> None:
    """A Warning event is logged as a warning, a Normal event as information."""
    caplog.set_level(logging.INFO)
    involved = ObjectReference(kind="Pod", namespace="default", name="web")
    LogRecorder().event(involved, event_type, "Started", "Started container main")
    (record,) = caplog.records
    assert record.levelno == level
    assert record.pykubelet_facts == {  # type: ignore[attr-defined]
        "object": "Pod default/web",
        "reason": "Started",
        "event": "Started container main",
    }
