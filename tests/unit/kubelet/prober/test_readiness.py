"""Started and ready, for any statuses and any probe results."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import ContainerState, ContainerStateRunning, ContainerStatus, PodStatus
from pykubelet.kubelet.prober.prober_manager import PodProbeResults, with_probe_results
from pykubelet.kubelet.types import ProbeOutcome, ProbeType
from pykubelet.testing.build import container, pod

Known = dict[tuple[ProbeType, str], ProbeOutcome | None]
NAMES = ("a", "b", "c")
KNOWN: st.SearchStrategy[Known] = st.dictionaries(
    st.tuples(st.sampled_from(ProbeType), st.sampled_from(NAMES)), st.none() | st.sampled_from(ProbeOutcome)
)


class Verdicts(PodProbeResults):
    def __init__(self, known: Known) -> None:
        self.known = known

    def result(self, kind: ProbeType, container_id: str) -> ProbeOutcome | None:
        return self.known.get((kind, container_id))

    def is_probed(self, kind: ProbeType, container_name: str) -> bool:
        return (kind, container_name) in self.known


@settings(max_examples=100)
@given(KNOWN, st.sets(st.sampled_from(NAMES)))
def test_ready_container_runs_has_started_and_passed(known: Known, running: set[str]) -> None:
    """A ready container runs, has started and passed its probe; a started one without a result is urgent."""
    verdicts = Verdicts(known)
    statuses = tuple(
        ContainerStatus(
            name=name,
            container_id=name,
            state=ContainerState(running=ContainerStateRunning() if name in running else None),
        )
        for name in NAMES
    )
    of = pod(containers=[container(name) for name in NAMES])
    merged, urgent = with_probe_results(of, PodStatus(container_statuses=statuses), verdicts)
    for one in merged.container_statuses:
        if one.ready:
            assert one.started
            assert one.name in running
            assert known.get((ProbeType.READINESS, one.name), ProbeOutcome.SUCCESS) == ProbeOutcome.SUCCESS
        if one.started:
            assert known.get((ProbeType.STARTUP, one.name), ProbeOutcome.SUCCESS) == ProbeOutcome.SUCCESS
            assert one.ready != (one.name in urgent)
