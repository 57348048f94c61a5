"""Results: told when they change."""

from hypothesis import given
from hypothesis import strategies as st

from pykubelet.agent.flow import ProbeKind, ProbeResult, ProbeVerdict
from pykubelet.agent.probes.results import Results
from pykubelet.api.keys import PodUid

UID = PodUid("uid")


@given(st.lists(st.sampled_from(ProbeVerdict)))
def test_results_tell_of_changes_but_not_of_repeats(verdicts: list[ProbeVerdict]) -> None:
    """Whoever listens hears each verdict that differs from the one before."""
    told: list[ProbeResult] = []
    results = Results(ProbeKind.STARTUP, told.append)
    for verdict in verdicts:
        results.set("cri://1", verdict, UID)
    changes = [one for n, one in enumerate(verdicts) if n == 0 or one != verdicts[n - 1]]
    assert told == [ProbeResult(UID, "cri://1", ProbeKind.STARTUP, verdict) for verdict in changes]


def test_results_are_found_by_either_form_of_the_id_until_removed() -> None:
    """A status names the runtime before the id, the runtime itself does not."""
    results = Results(ProbeKind.LIVENESS, lambda _: None)
    results.set("cri://1", ProbeVerdict.FAILURE, UID)
    assert results.get("1") == results.get("cri://1") == ProbeVerdict.FAILURE
    assert results.passed == {"1": False}
    results.set("cri://1", ProbeVerdict.UNKNOWN, UID)
    assert results.passed == {}
    results.remove("cri://1")
    assert results.get("1") is None
    assert len(results) == 0
