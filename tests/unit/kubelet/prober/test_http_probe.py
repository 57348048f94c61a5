"""How HTTP responses of probes are judged, and which redirects are followed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kubelet.prober.http_probe import HttpProbeError, HttpProbeResponse, probe_result, redirect_target
from pykubelet.kubelet.prober.tcp_probe import ProbeState

ASKED = "http://10.0.0.1:80/start"


@given(st.integers(100, 599), st.binary(max_size=20))
def test_response_is_judged_by_its_status_class(status: int, body: bytes) -> None:
    """A failure never contains the body, since many users can read events."""
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
def test_invalid_redirect_is_an_error(location: str) -> None:
    """Go's HTTP client does the same."""
    with pytest.raises(HttpProbeError):
        redirect_target(ASKED, ASKED, HttpProbeResponse(302, location, b""))
