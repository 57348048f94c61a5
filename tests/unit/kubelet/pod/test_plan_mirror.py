"""Planning the mirror of a static pod, and its contents."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import CONFIG_HASH, CONFIG_MIRROR, CONFIG_SOURCE, is_mirror_pod
from pykubelet.kubelet.pod.pod_manager import MirrorPlan, is_mirror_pod_of, mirror_of, plan_mirror
from pykubelet.testing.build import pod

words = st.sampled_from(("", "a", "b"))
annotations = st.dictionaries(st.sampled_from((CONFIG_SOURCE, CONFIG_HASH, CONFIG_MIRROR, "other")), words)
pods = st.builds(lambda name, notes: pod(name, annotations=notes), st.sampled_from(("x", "y")), annotations)
static_pods = st.builds(
    lambda notes, source: pod("x", annotations={**notes, CONFIG_SOURCE: source}),
    annotations,
    st.sampled_from(("file", "http")),
)


@given(static_pods)
def test_mirror_we_create_needs_no_change(static: Pod) -> None:
    """A mirror that we create is accepted as it is."""
    mirror = mirror_of(static, "node-1", "node-uid")
    assert is_mirror_pod(mirror)
    assert is_mirror_pod_of(mirror, static)
    assert plan_mirror(static, mirror) is MirrorPlan.LEAVE
    assert plan_mirror(static, None) is MirrorPlan.CREATE


@given(static_pods, pods)
def test_mirror_is_replaced_exactly_when_it_shows_something_else(static: Pod, mirror: Pod) -> None:
    """It differs in name or hash, lacks the mirror annotation, or is being deleted."""
    same_name = mirror.metadata.name == static.metadata.name
    found = mirror.metadata.annotations.get(CONFIG_MIRROR)
    fits = same_name and found is not None and found == static.metadata.annotations.get(CONFIG_HASH, "")
    assert plan_mirror(static, mirror) is (MirrorPlan.LEAVE if fits else MirrorPlan.REPLACE)
    leaving = replace(mirror, metadata=replace(mirror.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    assert plan_mirror(static, leaving) is MirrorPlan.REPLACE


@given(annotations, st.none() | pods)
def test_pod_from_the_api_never_gets_a_mirror(notes: dict[str, str], mirror: Pod | None) -> None:
    """Nor does a pod of unknown source."""
    unknown = {key: value for key, value in notes.items() if key != CONFIG_SOURCE}
    assert plan_mirror(pod(annotations=unknown), mirror) is MirrorPlan.LEAVE
    assert plan_mirror(pod(annotations={**notes, CONFIG_SOURCE: "api"}), mirror) is MirrorPlan.LEAVE
