"""The last outcomes of each probe: bounded, and removed with the probe."""

from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.pods import PodUid
from pykubelet.kubelet.prober.results import HISTORY_LENGTH, ProbeHistory, RecentOutcomes
from pykubelet.kubelet.types import ProbeOutcome, ProbeType

UID = PodUid("uid")
LETTERS = {ProbeOutcome.SUCCESS: "s", ProbeOutcome.FAILURE: "f", ProbeOutcome.UNKNOWN: "u"}


@given(st.lists(st.sampled_from(ProbeOutcome), min_size=1, max_size=2 * HISTORY_LENGTH))
def test_last_findings_are_remembered_in_order(found: list[ProbeOutcome]) -> None:
    """One letter per outcome, the newest last."""
    history = ProbeHistory()
    for seconds, verdict in enumerate(found):
        history.note(UID, "main", ProbeType.LIVENESS, verdict, float(seconds))
    letters = "".join(LETTERS[verdict] for verdict in found)[-HISTORY_LENGTH:]
    assert history.of_pod(UID) == (RecentOutcomes("main", ProbeType.LIVENESS, letters, len(found) - 1.0),)


def test_findings_go_with_their_probe() -> None:
    """Those of the pod's other probes stay."""
    history = ProbeHistory()
    for kind in (ProbeType.LIVENESS, ProbeType.READINESS):
        history.note(UID, "main", kind, ProbeOutcome.SUCCESS, 0.0)
    history.forget(UID, "main", ProbeType.LIVENESS)
    assert [one.kind for one in history.of_pod(UID)] == [ProbeType.READINESS]
    history.forget(UID, "main", ProbeType.READINESS)
    history.forget(UID, "main", ProbeType.READINESS)
    assert history.of_pod(UID) == ()
