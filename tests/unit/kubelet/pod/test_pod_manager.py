"""The pod manager under any order of updates, and its collaborators."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.pods import MirrorUid, PodUid, is_mirror_pod, is_terminal, pod_full_name
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.testing.build import mirror_pod, pod, static_pod

NAMES = ("a", "b")


class Registry:
    """Records which pods are registered."""

    def __init__(self) -> None:
        self.registered: set[str] = set()

    def register_pod(self, pod: Pod) -> None:
        self.registered.add(pod.metadata.uid)

    def unregister_pod(self, pod: Pod) -> None:
        self.registered.discard(pod.metadata.uid)


class Mirrors:
    """Records the calls to the mirror client."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    async def create_mirror_pod(self, pod: Pod) -> None:
        self.calls.append(("create", pod))

    async def delete_mirror_pod(self, pod_full_name: str, uid: MirrorUid | None) -> bool:
        self.calls.append(("delete", pod_full_name, uid))
        return True


def any_pod() -> st.SearchStrategy[Pod]:
    """A static, mirror or API pod with one of a few names and UIDs, so that they collide."""

    def build(kind: str, name: str, number: int, phase: str) -> Pod:
        status = PodStatus(phase=phase)
        if kind == "static":
            return static_pod(name, uid=f"{name}-static-{number}", status=status)
        if kind == "mirror":
            return mirror_pod(name, uid=f"{name}-mirror-{number}", status=status)
        return pod(name, uid=f"{name}-api-{number}", status=status)

    return st.builds(
        build,
        st.sampled_from(("static", "mirror", "api")),
        st.sampled_from(NAMES),
        st.integers(1, 2),
        st.sampled_from(("Running", "Failed")),
    )


steps = st.lists(st.tuples(st.sampled_from(("put", "delete")), any_pod()), max_size=25)


def orderly(wanted: Sequence[tuple[str, Pod]]) -> tuple[list[tuple[str, Pod]], dict[tuple[bool, str], Pod]]:
    """Orders updates as sources do, replacing a name by delete, then add; also returns the final pods."""
    said: list[tuple[str, Pod]] = []
    held: dict[tuple[bool, str], Pod] = {}
    for verb, each in wanted:
        place = (is_mirror_pod(each), pod_full_name(each))
        holder = held.get(place)
        if holder is not None and (verb == "delete" or holder.metadata.uid != each.metadata.uid):
            said.append(("delete", held.pop(place)))
        if verb == "put":
            said.append(("put", each))
            held[place] = each
    return said, held


def feed(manager: PodManager, said: Sequence[tuple[str, Pod]]) -> None:
    for verb, each in said:
        if verb == "put":
            manager.update_pod(each)
        else:
            manager.delete_pod(each)


@settings(max_examples=100, deadline=None)
@given(steps)
def test_manager_ends_where_the_last_inputs_say(wanted: list[tuple[str, Pod]]) -> None:
    """A manager that was only given the final pods answers the same."""
    said, held = orderly(wanted)
    manager, fresh = PodManager(), PodManager()
    feed(manager, said)
    fresh.set_pods(held.values())
    for ours, theirs in zip(manager.pods_and_mirror_pods(), fresh.pods_and_mirror_pods(), strict=True):
        assert sorted(map(str, ours)) == sorted(map(str, theirs))
    assert manager.static_to_mirror() == fresh.static_to_mirror()
    for each in held.values():
        assert manager.pod_and_mirror_pod(each) == fresh.pod_and_mirror_pod(each)
        assert manager.pod_by_uid(PodUid(each.metadata.uid)) == (None if is_mirror_pod(each) else each)
        if manager.pod_by_full_name(pod_full_name(each)) is not None:
            assert manager.translate_pod_uid(each.metadata.uid) == fresh.translate_pod_uid(each.metadata.uid)


@settings(max_examples=100, deadline=None)
@given(steps)
def test_orphans_are_the_mirrors_without_a_pod_of_their_name(wanted: list[tuple[str, Pod]]) -> None:
    """The names tracked incrementally equal those of a full comparison, even when removals come late."""
    manager = PodManager()
    feed(manager, wanted)
    probes = {pod_full_name(each): each for each in map(pod, NAMES)}
    expected = {
        name
        for name, each in probes.items()
        if manager.mirror_pod_by_pod(each) is not None and manager.pod_by_full_name(name) is None
    }
    assert set(manager.orphaned_mirror_pod_names()) == expected


@settings(max_examples=100, deadline=None)
@given(steps, st.booleans())
def test_registered_are_the_regular_pods_that_may_run(wanted: list[tuple[str, Pod]], reset: bool) -> None:
    """Secrets and config maps are held for exactly the regular pods that have not terminated."""
    secrets, config_maps = Registry(), Registry()
    manager = PodManager(secrets=secrets, config_maps=config_maps)
    feed(manager, wanted)
    if reset:
        manager.set_pods(manager.pods()[:1])
    expected = {each.metadata.uid for each in manager.pods() if not is_terminal(each.status.phase)}
    assert secrets.registered == config_maps.registered == expected


async def test_mirror_calls_go_to_the_mirror_client_when_given() -> None:
    mirrors = Mirrors()
    manager = PodManager(mirror=mirrors)
    await manager.create_mirror_pod(static_pod())
    assert await manager.delete_mirror_pod("web_default", MirrorUid("m")) is True
    assert mirrors.calls == [("create", static_pod()), ("delete", "web_default", "m")]


async def test_mirror_calls_do_nothing_without_a_mirror_client() -> None:
    """Without an API server they succeed and change nothing."""
    manager = PodManager()
    await manager.create_mirror_pod(static_pod())
    assert await manager.delete_mirror_pod("web_default", None) is False


def test_manager_returns_the_pod_it_was_given() -> None:
    """The pair contains the pod as passed, not the stored copy."""
    stored, asked = static_pod(), replace(static_pod(), status=PodStatus(phase="Running"))
    manager = PodManager()
    manager.add_pod(stored)
    assert manager.pod_and_mirror_pod(asked).pod is asked
