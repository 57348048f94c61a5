"""Forms of objects: stored and served objects, events of both groups, list items, watch events, scales."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.serializer import encode
from pykubelet.apiserver.handlers.options import ObjectSelector, object_selector
from pykubelet.apiserver.handlers.scale import scale_errors, scale_of, set_replicas
from pykubelet.apiserver.handlers.watch import WatchFilter, bookmark_event
from pykubelet.apiserver.handlers.write import (
    carried_over,
    creation_errors,
    path_segment_errors,
    update_errors,
    without_repeated_owners,
    without_system_fields,
)
from pykubelet.apiserver.registry import BUILT_IN_KINDS
from pykubelet.apiserver.storage.codec import collection_of, item_text, list_head, served_text, stored_form
from pykubelet.apiserver.storage.interfaces import StoreChange, StoreEntry, StoreKey
from pykubelet.kinds.event import to_core_v1, to_events_v1
from pykubelet.kinds.kind import ScalePaths

SERVED = {served.resource.group_resource: served for served in BUILT_IN_KINDS}
MAPS, EVENTS, NEW_EVENTS = SERVED["configmaps"], SERVED["events"], SERVED["events.events.k8s.io"]
TEXTS = st.text(max_size=8)
LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("12"), max_size=2)
REFERENCES = st.fixed_dictionaries({}, optional={"kind": TEXTS, "name": TEXTS, "namespace": TEXTS})
OLD_EVENTS = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"name": st.just("e")}), "involvedObject": REFERENCES},
    optional={
        "reason": TEXTS,
        "message": TEXTS,
        "type": TEXTS,
        "count": st.integers(0, 9),
        "firstTimestamp": st.just("2026-01-01T00:00:00Z"),
        "source": st.fixed_dictionaries({}, optional={"component": TEXTS, "host": TEXTS}),
        "reportingComponent": TEXTS,
        "action": TEXTS,
        "related": REFERENCES,
    },
)


def stored(name: str, labels: dict[str, str], revision: int) -> StoreEntry:
    metadata = {"name": name, "namespace": "d", "labels": labels, "resourceVersion": str(revision)}
    document = {"data": {"metadata": "x"}, "metadata": metadata, "apiVersion": "v1", "kind": "ConfigMap"}
    return StoreEntry(StoreKey("configmaps", "d", name), revision, encode(stored_form(MAPS, document)))


@given(OLD_EVENTS)
def test_event_survives_the_other_form(event: dict[str, Any]) -> None:
    """Conversion there and back changes nothing; both groups share one collection, in the older form."""
    old = to_core_v1({"kind": "Event", "apiVersion": "v1", **event})
    new = to_events_v1(old)
    assert to_core_v1(new) == old
    assert collection_of(NEW_EVENTS) == collection_of(EVENTS) == "events"
    text = encode(stored_form(NEW_EVENTS, new))
    assert json.loads(text) == old
    assert json.loads(served_text(NEW_EVENTS, text)) == new
    assert served_text(EVENTS, text) is text


@given(st.dictionaries(TEXTS, TEXTS), TEXTS)
def test_item_of_a_list_is_the_object_without_its_kind(data: dict[str, str], name: str) -> None:
    """This holds for any texts; a custom resource keeps its kind."""
    document = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, "data": data}
    text = encode(stored_form(MAPS, dict(reversed(document.items()))))
    assert json.loads(text) == document
    bare = {key: value for key, value in document.items() if key in ("metadata", "data")}
    assert json.loads(item_text(MAPS, text)) == bare
    custom = replace(MAPS, definition="")
    assert json.loads(item_text(custom, text)) == document
    assert list_head(MAPS) == b'{"kind":"ConfigMapList","apiVersion":"v1","metadata":'


@given(st.none() | LABELS, st.none() | LABELS, st.sampled_from(["", "a=1", "a!=1,b", "!a"]))
def test_watcher_sees_what_a_list_before_and_after_would_show(
    before: dict[str, str] | None, after: dict[str, str] | None, labels: str
) -> None:
    """Entering a selection gives ADDED, leaving it DELETED; an object in neither list gives no event."""
    if before is None and after is None:
        return
    chosen = object_selector(labels, "", MAPS)
    change = StoreChange(
        7,
        StoreKey("configmaps", "d", "x"),
        None if before is None else stored("x", before, 5),
        None if after is None else stored("x", after, 7),
    )
    was = before is not None and chosen.labels.matches(before)
    now = after is not None and chosen.labels.matches(after)
    event = WatchFilter(MAPS, "", "", chosen).event(change)
    expected = {(True, True): "MODIFIED", (False, True): "ADDED", (True, False): "DELETED"}.get((was, now))
    assert (event.type if event else None) == expected
    if event is not None:
        shown = json.loads(event.object)["metadata"]
        assert shown["resourceVersion"] == "7"
        assert shown["labels"] == (after if now else before)
    for namespace, name in (("other", ""), ("", "y")):
        assert WatchFilter(MAPS, namespace, name, ObjectSelector()).event(change) is None


def test_bookmark_is_an_empty_object_of_the_kind() -> None:
    """Its fields are those that Go writes for an empty object."""
    pod = json.loads(bookmark_event(SERVED["pods"], 9, ends_initial_events=True).object)
    metadata = {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}
    expected = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"containers": None}, "status": {}}
    assert pod == expected


@given(st.integers(-3, 5), st.sampled_from(["spec.replicas", "spec.deep.size", "n"]))
def test_scale_returns_the_replicas_that_were_set(replicas: int, path: str) -> None:
    """This holds for any path of the replicas; other fields stay."""
    paths = ScalePaths(path, "status.replicas", "status.selector")
    metadata = {"name": "a", "namespace": "d", "uid": "u", "resourceVersion": "5", "labels": {"x": "y"}}
    document = {"kind": "X", "metadata": metadata, "spec": {"other": 1}, "status": {"replicas": 3, "selector": "a=b"}}
    scale = scale_of(document, paths)
    assert scale["status"] == {"replicas": 3, "selector": "a=b"}
    assert set(scale["metadata"]) == {"name", "namespace", "uid", "resourceVersion"}
    wished = {**scale, "spec": {"replicas": replicas}}
    assert bool(scale_errors(wished)) == (replicas < 0)
    changed = set_replicas(document, wished, paths)
    assert scale_of(changed, paths)["spec"] == ({"replicas": replicas} if replicas else {})
    assert changed["spec"]["other"] == 1


@given(st.lists(st.fixed_dictionaries({"uid": st.sampled_from("ab"), "name": st.sampled_from("xy")}), max_size=4))
def test_owners_are_kept_once_in_order(owners: list[dict[str, str]]) -> None:
    """Only exact duplicates are removed, with a warning."""
    document, warnings = without_repeated_owners({"metadata": {"ownerReferences": owners}})
    kept = document["metadata"]["ownerReferences"]
    assert kept == [owner for place, owner in enumerate(owners) if owner not in owners[:place]]
    assert bool(warnings) == (len(kept) < len(owners))


def test_very_many_owner_references_are_compared_in_a_moment() -> None:
    """Comparing each with all others would block the server for minutes; the order of fields makes no difference."""
    owners = [{"uid": f"u{number}", "name": "a"} for number in range(20_000)]
    document, warnings = without_repeated_owners(
        {"metadata": {"ownerReferences": [*owners, {"name": "a", "uid": "u7"}]}}
    )
    assert document["metadata"]["ownerReferences"] == owners
    assert len(warnings) == 1


@given(st.dictionaries(st.sampled_from(["uid", "creationTimestamp", "deletionTimestamp", "labels", "selfLink"]), TEXTS))
def test_system_fields_are_the_server_s(metadata: dict[str, str]) -> None:
    """A new object has none of them; an updated one keeps those it had."""
    document = {"kind": "X", "metadata": metadata}
    assert set(without_system_fields(document)["metadata"]) <= {"labels"}
    old = {
        "metadata": {"uid": "u", "creationTimestamp": "c", "deletionTimestamp": "d", "deletionGracePeriodSeconds": 3}
    }
    after = carried_over(document, old)["metadata"]
    assert (after["creationTimestamp"], after["deletionTimestamp"]) == ("c", "d")
    assert after["uid"] == (metadata.get("uid") or "u")
    assert after["deletionGracePeriodSeconds"] == 3


@given(st.text(alphabet="ab./%", max_size=4))
def test_name_must_be_able_to_stand_in_a_path(name: str) -> None:
    """This holds whatever the kind's own rules for names are."""
    fits = name not in {".", ".."} and "/" not in name and "%" not in name
    assert (path_segment_errors(name) == []) == fits
    assert (creation_errors({"metadata": {"name": name}}) == []) == fits


def test_unchanged_metadata_is_not_validated_again() -> None:
    """Fields that the server writes itself do not count as a change."""
    old = {"metadata": {"name": "a", "namespace": "d", "uid": "u", "resourceVersion": "1", "labels": {"bad key": "x"}}}
    new = {"metadata": {**old["metadata"], "managedFields": [{"manager": "m"}], "generation": 2}}
    assert update_errors(new, old, namespaced=True) == []
    renamed = {"metadata": {**old["metadata"], "uid": "v"}}
    assert "metadata.uid" in [error.field for error in update_errors(renamed, old, namespaced=True)]
