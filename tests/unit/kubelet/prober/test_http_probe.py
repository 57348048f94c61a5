"""What HTTP answers mean to a probe."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kubelet.prober.http_probe import HttpProbeError, HttpProbeResponse, probe_result, redirect_target
from pykubelet.kubelet.prober.tcp_probe import ProbeState

ASKED = "http://10.0.0.1:80/start"


@given(st.integers(100, 599), st.binary(max_size=20))
def test_answer_is_judged_by_its_hundred(status: int, body: bytes) -> None:
    """The body is in no failure: events are read by many."""
    finding = probe_result(HttpProbeResponse(status, None, body))
    expected = {2: ProbeState.SUCCESS, 3: ProbeState.WARNING}.get(status // 100, ProbeState.FAILURE)
    assert finding.state == expected
    if expected == ProbeState.FAILURE:
        assert finding.output == f"HTTP probe failed with statuscode: {status}"


@pytest.mark.parametrize(
    ("status", "location", "target"),
    [
        (302, "/next", "http://10.0.0.1:80/next"),
        (308, "http://10.0.0.1:8080/x", "http://10.0.0.1:8080/x"),
        (301, "https://10.0.0.1/x", "https://10.0.0.1/x"),
        (302, "http://example.com/x", None),
        (302, "//example.com/x", None),
        (302, "", None),
        (302, None, None),
        (304, "/next", None),
        (200, "/next", None),
    ],
)
def test_redirect_is_followed_within_the_host_only(status: int, location: str | None, target: str | None) -> None:
    """Port and scheme may change, the host may not."""
    assert redirect_target(ASKED, ASKED, HttpProbeResponse(status, location, b"")) == target


@pytest.mark.parametrize("location", ["ftp://10.0.0.1/x", "http://[::1/x"], ids=["scheme", "no address"])
def test_redirect_to_nowhere_is_no_answer(location: str) -> None:
    """As Go's client has it."""
    with pytest.raises(HttpProbeError):
        redirect_target(ASKED, ASKED, HttpProbeResponse(302, location, b""))
