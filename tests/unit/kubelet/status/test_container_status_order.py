"""The sort order of container statuses."""

from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.generated.core import ContainerStatus
from pykubelet.kubelet.status.container_statuses import init_statuses_in_order, sort_by_name, sort_init_statuses
from pykubelet.testing.build import container, pod

names = st.lists(st.sampled_from("abcdef"), unique=True)


def statuses(of: list[str]) -> list[ContainerStatus]:
    return [ContainerStatus(name=name) for name in of]


@given(st.lists(st.text(max_size=3)))
def test_statuses_are_sorted_by_the_bytes_of_their_names(of: list[str]) -> None:
    """Go compares strings by bytes, too."""
    assert [status.name for status in sort_by_name(statuses(of))] == sorted(of, key=str.encode)


@given(names, names)
def test_init_statuses_follow_the_spec(spec: list[str], of: list[str]) -> None:
    """Containers of the spec come first, in its order; none is lost. Picking from a map drops the others."""
    asked = pod(init_containers=tuple(map(container, spec)))
    in_spec = [name for name in spec if name in of]
    ordered = [status.name for status in sort_init_statuses(asked, statuses(of))]
    assert ordered[: len(in_spec)] == in_spec
    assert sorted(ordered) == sorted(of)
    by_name = {status.name: status for status in statuses(of)}
    assert [status.name for status in init_statuses_in_order(asked, by_name)] == in_spec
