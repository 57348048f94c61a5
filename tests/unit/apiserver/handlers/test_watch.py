"""Watches: where they start, what they send, how they end."""

import json
from typing import Any

from pykubelet.apiserver.request import SerializedEvent, WatchStream
from verb_requests import MERGE, Asker, config_map, pod

MAPS = "/api/v1/namespaces/default/configmaps"
WATCH = f"{MAPS}?watch=1&timeoutSeconds=1"


def told(events: list[SerializedEvent]) -> list[tuple[str, Any]]:
    return [(event.type, json.loads(event.object)["metadata"].get("name")) for event in events]


async def test_watch_without_a_revision_starts_with_what_is_there(asker: Asker) -> None:
    """So does a watch from revision 0; a bookmark marks the end of the initial events."""
    await asker.ask("POST", MAPS, config_map("a"))
    for query in ("", "&resourceVersion=0", "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"):
        assert told(await asker.watch(WATCH + query)) == [("ADDED", "a")]
    *_, mark = await asker.watch(f"{WATCH}&allowWatchBookmarks=true")
    assert mark.type == "BOOKMARK"
    bookmark = json.loads(mark.object)
    assert bookmark["kind"] == "ConfigMap"
    assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    none = "&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
    assert await asker.watch(WATCH + none) == []


async def test_watch_of_one_object_sees_no_other(asker: Asker) -> None:
    """The watch uses a field selector, or the old path."""
    start = asker.api.store.revision
    for name in ("a", "b"):
        await asker.ask("POST", MAPS, config_map(name))
    await asker.ask("DELETE", f"{MAPS}/b")
    selected = await asker.watch(f"{WATCH}&resourceVersion={start}&fieldSelector=metadata.name%3Db")
    assert told(selected) == [("ADDED", "b"), ("DELETED", "b")]
    old = await asker.watch(f"/api/v1/watch/namespaces/default/configmaps/a?timeoutSeconds=1&resourceVersion={start}")
    assert told(old) == [("ADDED", "a")]


async def test_object_that_leaves_a_selection_is_deleted_as_it_was_before(asker: Asker) -> None:
    """The event has the new revision, from which the client can continue."""
    made = await asker.ask("POST", MAPS, config_map("a", labels={"x": "1"}))
    start = made["metadata"]["resourceVersion"]
    changed = await asker.ask("PATCH", f"{MAPS}/a", {"metadata": {"labels": {"x": "2"}}}, MERGE)
    (left,) = await asker.watch(f"{WATCH}&labelSelector=x%3D1&resourceVersion={start}")
    shown = json.loads(left.object)["metadata"]
    assert (left.type, shown["labels"]) == ("DELETED", {"x": "1"})
    assert shown["resourceVersion"] == changed["metadata"]["resourceVersion"]


async def test_watch_that_cannot_continue_sends_an_error_event(asker: Asker) -> None:
    """The event has a Status: the revision is too old, or the server never reached it."""
    start = asker.api.store.revision
    for name in ("a", "b"):
        await asker.ask("POST", MAPS, config_map(name))
    asker.api.store._history.trim(float("inf"))
    (event,) = await asker.watch(f"{WATCH}&resourceVersion={start}")
    status = json.loads(event.object)
    assert (event.type, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    assert status["message"].startswith(f"too old resource version: {start} (")
    (event,) = await asker.watch(
        f"{WATCH}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999"
    )
    assert json.loads(event.object)["code"] == 504
    assert await asker.watch(f"{WATCH}&resourceVersion=999") == []
    assert (await asker.refused("GET", f"{WATCH}&resourceVersion=x"))[0] == 500


async def test_bookmarks_come_once_a_minute_and_before_the_end(asker: Asker) -> None:
    """A watch without allowWatchBookmarks gets none."""
    target = f"{MAPS}?watch=1&allowWatchBookmarks=1&timeoutSeconds=150&resourceVersion={asker.api.store.revision}"
    assert [event.type for event in await asker.watch(target, seconds=200)] == ["BOOKMARK"] * 3
    silent = target.replace("allowWatchBookmarks=1", "allowWatchBookmarks=false")
    assert await asker.watch(silent, seconds=200) == []


async def test_all_watchers_of_a_change_share_one_text(asker: Asker) -> None:
    """Each change is encoded once for all watchers."""
    target = f"{WATCH}&resourceVersion={asker.api.store.revision}"
    streams = [await asker.handle("GET", target) for _ in range(3)]
    await asker.ask("POST", MAPS, config_map("a"))
    texts = []
    for stream in streams:
        assert isinstance(stream, WatchStream)
        texts.append((await anext(aiter(stream.batches)))[0].object)
        await stream.batches.aclose()
    assert texts[0] is texts[1] is texts[2]


async def test_pod_without_grace_period_is_marked_before_its_removal(asker: Asker) -> None:
    """Watchers see MODIFIED with the deletion mark before DELETED, as upstream."""
    start = asker.api.store.revision
    pods = "/api/v1/namespaces/default/pods"
    await asker.ask("POST", pods, pod("a"))
    await asker.ask("DELETE", f"{pods}/a")
    events = await asker.watch(f"{pods}?watch=true&timeoutSeconds=1&resourceVersion={start}")
    assert [event.type for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert json.loads(events[1].object)["metadata"]["deletionGracePeriodSeconds"] == 0
