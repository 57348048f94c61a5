"""Last known good: pods go only when someone removed them, and each pod comes from one file."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.agent.sources.last_known_good import NOTHING_KNOWN, Reading, Scan, View, advance
from pykubelet.api.generated.core import Pod
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.pods import pod_full_name

MakePod = Callable[..., Pod]
HERE, ELSEWHERE = (1, 1), (1, 2)


def look(files: dict[str, Reading | None], *, folder: tuple[int, int] | None = HERE, problem: str = "") -> Scan:
    return Scan(path="/m", is_folder=True, folder=folder, files=files, is_definite=True, problem=problem)


def read(*pods: Pod, problem: str = "") -> Reading:
    return Reading(pods=pods, problem=problem, stamp=(1,))


def seen(*scans: Scan) -> View:
    view = NOTHING_KNOWN
    for scan in scans:
        view = advance(view, scan)
    return view


def names(view: View) -> list[str]:
    return [pod.metadata.name for pod in view.pods]


def test_file_with_a_problem_keeps_what_it_does_not_name_now(make_pod: MakePod) -> None:
    """Good documents count, and so do the old ones that the bad documents may have been."""
    a, b, changed = make_pod("a"), make_pod("b"), make_pod("a", "2", image="v2")
    view = seen(look({"/m/f": read(a, b)}), look({"/m/f": read(changed, problem="line 9: bad")}))
    assert view.pods == (changed, b)
    assert view.problems == {"/m/f": "line 9: bad"}
    view = advance(view, look({"/m/f": read(changed)}))
    assert (view.pods, view.problems) == ((changed,), {})


def test_unchanged_file_stays_as_it_was(make_pod: MakePod) -> None:
    """None stands for "as before", problem included; for a file never read, for nothing yet."""
    view = seen(look({"/m/f": read(make_pod(), problem="p")}), look({"/m/f": None, "/m/new": None}))
    assert names(view) == ["web"]
    assert view.problems == {"/m/f": "p"}
    assert list(view.files) == ["/m/f"]


def test_equal_pods_stay_the_same_objects(make_pod: MakePod) -> None:
    """A file that was only touched gives nothing to compare."""
    first = seen(look({"/m/f": read(make_pod())}))
    assert advance(first, look({"/m/f": read(make_pod())})).pods[0] is first.pods[0]


@pytest.mark.parametrize(
    ("scan", "kept", "problem"),
    [
        pytest.param(look({}), False, "", id="all files removed"),
        pytest.param(look({}, folder=None, problem="gone"), True, "gone", id="folder vanished"),
        pytest.param(look({}, folder=ELSEWHERE), True, "another, empty folder is here now", id="folder unmounted"),
        pytest.param(look({"/m/g": read()}, folder=ELSEWHERE), False, "", id="another folder, with files"),
        pytest.param(look({"/m/f": read()}), False, "", id="explicit empty list"),
        pytest.param(look({"/m/f": read(problem="bad")}), True, "bad", id="file broken"),
    ],
)
def test_pods_go_only_when_removed(scan: Scan, kept: bool, problem: str, make_pod: MakePod) -> None:
    """What merely vanished or broke keeps its pods, and says so; the next good look heals it."""
    good = look({"/m/f": read(make_pod())})
    view = seen(good, scan)
    assert bool(view.pods) is kept
    assert [message.partition(";")[0] for message in view.problems.values()] == ([problem] if problem else [])
    assert seen(good, scan, scan, good).problems == {}


def test_vanished_folder_without_pods_promises_nothing() -> None:
    """There is nothing to keep."""
    assert seen(look({}, folder=None, problem="gone")).problems == {"/m": "gone"}


def test_first_file_in_order_wins_unless_another_runs(make_pod: MakePod) -> None:
    """At the start sorted order decides; later the running pod stays until its file gives it up."""
    a, b = make_pod(uid="a"), make_pod(uid="b")
    together = look({"/m/b": read(b), "/m/a": read(a)})
    assert seen(together).pods == (a,)
    assert seen(together).problems == {"/m/b": "pod ns/web is ignored here: /m/a defines it"}
    running = seen(look({"/m/b": read(b)}), together)
    assert running.pods == (b,)
    assert list(running.problems) == ["/m/a"]
    assert advance(running, look({"/m/b": read(), "/m/a": None})).pods == (a,)


def test_name_or_uid_used_twice_is_told(make_pod: MakePod) -> None:
    """In one file the first counts; and one UID cannot be two pods."""
    view = seen(look({"/m/f": read(make_pod(uid="1"), make_pod(uid="2"), make_pod("other", uid="1"))}))
    assert [pod.metadata.uid for pod in view.pods] == ["1"]
    assert view.problems["/m/f"].split("; ") == [
        "pod ns/web is defined more than once here: the first counts",
        "pod ns/other is ignored here: its uid belongs to pod ns/web of /m/f",
    ]


def scans_of(uid_of: Callable[[str, str], str]) -> st.SearchStrategy[list[Scan]]:
    """Looks at three files with pods of a few names and UIDs."""
    pods = st.lists(
        st.builds(
            lambda name, uid: Pod(metadata=ObjectMeta(name=name, namespace="ns", uid=uid_of(name, uid))),
            st.sampled_from("abc"),
            st.sampled_from("1234"),
        ),
        max_size=3,
    ).map(tuple)
    readings = st.none() | st.builds(Reading, pods=pods, problem=st.sampled_from(["", "", "bad"]))
    files = st.dictionaries(st.sampled_from(["/m/x", "/m/y", "/m/z"]), readings)
    return st.lists(st.builds(look, files, folder=st.sampled_from([HERE, HERE, ELSEWHERE, None])), max_size=6)


@settings(max_examples=100, deadline=None)
@given(scans=scans_of(lambda _, uid: uid))
def test_names_and_uids_are_unique_after_every_look(scans: list[Scan]) -> None:
    """Each pod is one that its owner names, whatever the files say."""
    view = NOTHING_KNOWN
    for scan in scans:
        view = advance(view, scan)
        assert sorted(pod_full_name(pod) for pod in view.pods) == sorted(view.owners)
        assert len({pod.metadata.uid for pod in view.pods}) == len(view.pods)
        assert all(pod in view.files[view.owners[pod_full_name(pod)]].pods for pod in view.pods)


@settings(max_examples=100, deadline=None)
@given(scans=scans_of(lambda name, uid: name + uid))
def test_file_keeps_its_pod_as_long_as_it_names_it(scans: list[Scan]) -> None:
    """Another file gets it only then; and a pod that any file names is there."""
    view = NOTHING_KNOWN
    for scan in scans:
        before, view = view, advance(view, scan)
        named = {(path, pod_full_name(pod)) for path, reading in view.files.items() for pod in reading.pods}
        assert {name for _, name in named} == set(view.owners)
        kept = {name: owner for name, owner in before.owners.items() if (owner, name) in named}
        assert kept.items() <= view.owners.items()
