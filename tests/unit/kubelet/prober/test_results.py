"""The results manager: reports each change of a result."""

from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.pods import PodUid
from pykubelet.kubelet.prober.results import ResultsManager
from pykubelet.kubelet.types import ProbeOutcome, ProbeResult, ProbeType

UID = PodUid("uid")


@given(st.lists(st.sampled_from(ProbeOutcome)))
def test_results_report_changes_but_not_repeats(verdicts: list[ProbeOutcome]) -> None:
    """Subscribers get each result that differs from the one before."""
    told: list[ProbeResult] = []
    results = ResultsManager(ProbeType.STARTUP, told.append)
    for verdict in verdicts:
        results.set("cri://1", verdict, UID)
    changes = [one for n, one in enumerate(verdicts) if n == 0 or one != verdicts[n - 1]]
    assert told == [ProbeResult(UID, "cri://1", ProbeType.STARTUP, verdict) for verdict in changes]


def test_results_are_found_by_either_form_of_the_id_until_removed() -> None:
    """A status has the id with the runtime's name, the runtime without it."""
    results = ResultsManager(ProbeType.LIVENESS, lambda _: None)
    results.set("cri://1", ProbeOutcome.FAILURE, UID)
    assert results.get("1") == results.get("cri://1") == ProbeOutcome.FAILURE
    assert results.passed == {"1": False}
    results.set("cri://1", ProbeOutcome.UNKNOWN, UID)
    assert results.passed == {}
    results.remove("cri://1")
    assert results.get("1") is None
    assert len(results) == 0
