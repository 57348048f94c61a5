"""What probes found the last times: bounded, by pod, gone with the probe."""

from hypothesis import given
from hypothesis import strategies as st

from pykubelet.agent.flow import ProbeKind, ProbeVerdict
from pykubelet.agent.probes.history import FINDINGS, ProbeHistory, RecentFindings
from pykubelet.api.keys import PodUid

UID = PodUid("uid")
LETTERS = {ProbeVerdict.SUCCESS: "s", ProbeVerdict.FAILURE: "f", ProbeVerdict.UNKNOWN: "u"}


@given(st.lists(st.sampled_from(ProbeVerdict), min_size=1, max_size=2 * FINDINGS))
def test_last_findings_are_remembered_in_order(found: list[ProbeVerdict]) -> None:
    """The newest last, a letter each."""
    history = ProbeHistory()
    for seconds, verdict in enumerate(found):
        history.note(UID, "main", ProbeKind.LIVENESS, verdict, float(seconds))
    letters = "".join(LETTERS[verdict] for verdict in found)[-FINDINGS:]
    assert history.of_pod(UID) == (RecentFindings("main", ProbeKind.LIVENESS, letters, len(found) - 1.0),)


def test_findings_go_with_their_probe() -> None:
    """Those of the pod's other probes stay."""
    history = ProbeHistory()
    for kind in (ProbeKind.LIVENESS, ProbeKind.READINESS):
        history.note(UID, "main", kind, ProbeVerdict.SUCCESS, 0.0)
    history.forget(UID, "main", ProbeKind.LIVENESS)
    assert [one.kind for one in history.of_pod(UID)] == [ProbeKind.READINESS]
    history.forget(UID, "main", ProbeKind.READINESS)
    history.forget(UID, "main", ProbeKind.READINESS)
    assert history.of_pod(UID) == ()
