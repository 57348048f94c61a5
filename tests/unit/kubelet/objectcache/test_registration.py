"""Reference counts match the registered pods, whatever the order of calls."""

from collections import Counter
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import Pod
from pykubelet.kubelet.objectcache.secret_and_configmap_manager import Registration
from pykubelet.kubelet.objectcache.store import ObjectKey, ObjectStore
from pykubelet.testing.build import pod

NAMES = ("s1", "s2", "s3")


class References:
    """The reference counts of a store; no count may fall below zero."""

    def __init__(self) -> None:
        self.held: Counter[tuple[ObjectKey, str]] = Counter()
        self.calls: list[tuple[str, str]] = []

    def add_reference(self, key: ObjectKey, referrer: str) -> None:
        self.held[key, referrer] += 1
        self.calls.append(("add", key.name))

    def delete_reference(self, key: ObjectKey, referrer: str) -> None:
        assert self.held[key, referrer] > 0
        self.held[key, referrer] -= 1
        self.calls.append(("delete", key.name))


def names_of(each: Pod) -> frozenset[str]:
    return frozenset(each.metadata.labels)


def named(name: str, uid: str, names: frozenset[str]) -> Pod:
    return pod(name, namespace="ns", uid=uid, labels=dict.fromkeys(names, ""))


pods = st.builds(named, st.sampled_from(("p", "q")), st.sampled_from(("1", "2")), st.frozensets(st.sampled_from(NAMES)))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.booleans(), pods), max_size=30))
def test_references_are_those_of_the_registered_pods(story: list[tuple[bool, Pod]]) -> None:
    """After any sequence of register, update and unregister only the last registered references remain."""
    counter = References()
    registration = Registration(names=names_of, counter=cast("ObjectStore[Any]", counter))
    registered: dict[tuple[str, str], Pod] = {}
    for is_registered, each in story:
        key = (each.metadata.name, each.metadata.uid)
        if is_registered:
            registration.register_pod(each)
            registered[key] = each
        else:
            registration.unregister_pod(each)
            registered.pop(key, None)
    expected = Counter((ObjectKey("ns", name), uid) for (_, uid), each in registered.items() for name in names_of(each))
    assert +counter.held == expected


def test_update_adds_before_it_deletes_and_leaves_the_rest_alone() -> None:
    """A reference that stays is not touched, so its object is not fetched again."""
    counter = References()
    registration = Registration(names=names_of, counter=cast("ObjectStore[Any]", counter))
    registration.register_pod(named("p", "1", frozenset({"s1", "s2"})))
    counter.calls.clear()
    registration.register_pod(named("p", "1", frozenset({"s2", "s3"})))
    assert counter.calls == [("add", "s3"), ("delete", "s1")]
