"""The contract of every client: Reader, Writer, Watcher and Replacer."""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

import pytest

from pykubelet.api.errors import AlreadyExists, Conflict, Expired, Invalid, NotFound
from pykubelet.api.generated.core import ConfigMap, Pod
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.schema import CONFIG_MAPS as CONFIG_MAP_NAMES
from pykubelet.api.schema import PODS as POD_NAMES
from pykubelet.api.scheme import CONFIG_MAPS, NODES, PODS, as_documents
from pykubelet.client.interface import NOW, Client, PatchType, Replacer, Selection, WatchEvent, now_if_uid
from pykubelet.testing import build
from pykubelet.testing.memory_api import MemoryApi

pytestmark = pytest.mark.usefixtures("api")


class ReplacingClient(Client, Replacer, Protocol):
    """A client that can also replace whole documents."""


async def make(client: Client, name: str, **labels: str) -> ConfigMap:
    body = ConfigMap(metadata=ObjectMeta(name=name, labels=labels), data={"k": "1"})
    return await client.create(CONFIG_MAPS, body, namespace="default")


async def test_created_object_can_be_read_back(client: Client) -> None:
    """The server adds UID, revision and time; the rest is what was sent."""
    made = await make(client, "a", app="x")
    assert made.metadata.uid
    assert made.metadata.resource_version
    assert made.metadata.creation_timestamp
    assert await client.get(CONFIG_MAPS, "a", namespace="default") == made
    assert (await client.get(as_documents(CONFIG_MAP_NAMES), "a", namespace="default"))["data"] == {"k": "1"}


async def test_name_is_made_from_its_prefix(client: Client) -> None:
    """generateName gives two objects two names."""
    meta = ObjectMeta(generate_name="job-")
    one = await client.create(CONFIG_MAPS, ConfigMap(metadata=meta), namespace="default")
    two = await client.create(CONFIG_MAPS, ConfigMap(metadata=meta), namespace="default")
    assert one.metadata.name.startswith("job-")
    assert one.metadata.name != two.metadata.name


async def test_missing_name_is_not_found_and_taken_name_already_exists(client: Client) -> None:
    """Get, patch and delete of a missing name raise NotFound, creating an existing one raises AlreadyExists."""
    await make(client, "a")
    with pytest.raises(AlreadyExists):
        await make(client, "a")
    for call in (
        client.get(CONFIG_MAPS, "b", namespace="default"),
        client.patch(CONFIG_MAPS, "b", {}, namespace="default"),
        client.delete(CONFIG_MAPS, "b", namespace="default"),
        client.get(NODES, "n"),
    ):
        with pytest.raises(NotFound):
            await call


async def test_list_selects_pages_and_names_its_revision(client: Client) -> None:
    """It selects by labels, fields and namespace; the pages of a limited list add up to the whole."""
    for name, app in (("a", "x"), ("b", "y"), ("c", "x")):
        await make(client, name, app=app)
    labelled = await client.list(CONFIG_MAPS, namespace="default", selection=Selection(labels="app=x"))
    assert [item.metadata.name for item in labelled.items] == ["a", "c"]
    named = await client.list(CONFIG_MAPS, selection=Selection(fields="metadata.name=b"))
    assert [item.metadata.name for item in named.items] == ["b"]
    assert (await client.list(CONFIG_MAPS, namespace="other")).items == ()

    first = await client.list(CONFIG_MAPS, limit=2)
    rest = await client.list(CONFIG_MAPS, limit=2, continue_token=first.continue_token)
    assert [item.metadata.name for item in first.items + rest.items] == ["a", "b", "c"]
    assert int(first.resource_version) >= 3
    assert rest.continue_token == ""


@pytest.mark.parametrize(
    ("patch_type", "body"),
    [
        (PatchType.STRATEGIC, {"data": {"k": "2"}}),
        (PatchType.MERGE, {"data": {"k": "2"}}),
        (PatchType.JSON, [{"op": "replace", "path": "/data/k", "value": "2"}]),
    ],
)
async def test_patch_changes_what_it_names(client: Client, patch_type: PatchType, body: object) -> None:
    """A patch of each type changes only the named field, and the revision grows."""
    made = await make(client, "a", app="x")
    patched = await client.patch(CONFIG_MAPS, "a", body, namespace="default", patch_type=patch_type)
    assert patched.data == {"k": "2"}
    assert patched.metadata.labels == {"app": "x"}
    assert int(patched.metadata.resource_version) > int(made.metadata.resource_version)


async def test_patch_that_changes_nothing_keeps_the_revision(client: Client) -> None:
    """The answer is the object as it was, with its old revision."""
    made = await make(client, "a")
    assert await client.patch(CONFIG_MAPS, "a", {"data": {"k": "1"}}, namespace="default") == made


async def test_patch_with_another_uid_or_an_old_revision_is_refused(client: Client) -> None:
    """A UID in the patch is a precondition (422), a revision an optimistic lock (409)."""
    made = await make(client, "a")
    with pytest.raises(Invalid) as refused:
        await client.patch(CONFIG_MAPS, "a", {"metadata": {"uid": "other"}}, namespace="default")
    assert refused.value.causes[0]["field"] == "metadata.uid"
    await client.patch(CONFIG_MAPS, "a", {"data": {"k": "2"}}, namespace="default")
    body = {"metadata": {"resourceVersion": made.metadata.resource_version}, "data": {"k": "3"}}
    with pytest.raises(Conflict):
        await client.patch(CONFIG_MAPS, "a", body, namespace="default")


async def test_status_is_changed_only_through_its_subresource(client: Client) -> None:
    """A status patch does not change the spec, and a patch of the object does not change the status."""
    await client.create(PODS, build.pod("web"), namespace="default")
    body = {"spec": {"nodeName": "other"}, "status": {"phase": "Running"}}
    pod = await client.patch(PODS, "web", body, namespace="default", subresource="status")
    assert (pod.spec.node_name, pod.status.phase) == ("node-1", "Running")
    pod = await client.patch(PODS, "web", {"status": {"phase": "Failed"}}, namespace="default")
    assert pod.status.phase == "Running"


async def test_document_replaces_the_object_that_it_was_read_from(client: ReplacingClient) -> None:
    """Fields that the document leaves out are removed; an old revision is a Conflict, a missing name NotFound."""
    made = await make(client, "a", app="x")
    read = await client.get(as_documents(CONFIG_MAP_NAMES), "a", namespace="default")
    metadata = {key: value for key, value in read["metadata"].items() if key != "labels"}
    body = {**read, "metadata": metadata, "data": {"j": "2"}}
    replaced = await client.replace(CONFIG_MAP_NAMES, "a", body, namespace="default")
    found = await client.get(CONFIG_MAPS, "a", namespace="default")
    assert (found.data, found.metadata.labels, found.metadata.uid) == ({"j": "2"}, {}, made.metadata.uid)
    assert replaced["metadata"]["resourceVersion"] == found.metadata.resource_version
    with pytest.raises(Conflict):
        await client.replace(CONFIG_MAP_NAMES, "a", body, namespace="default")
    other = {**body, "metadata": {"name": "b"}}
    with pytest.raises(NotFound):
        await client.replace(CONFIG_MAP_NAMES, "b", other, namespace="default")


async def test_subresource_is_replaced_alone(client: ReplacingClient) -> None:
    """Replacing the status ignores the rest of the document."""
    await client.create(PODS, build.pod("web"), namespace="default")
    read = await client.get(as_documents(POD_NAMES), "web", namespace="default")
    body = {**read, "spec": {**read["spec"], "priority": 7}, "status": {**read.get("status", {}), "phase": "Running"}}
    replaced = await client.replace(POD_NAMES, "web", body, namespace="default", subresource="status")
    assert replaced["status"]["phase"] == "Running"
    assert replaced["spec"] == read["spec"]


async def test_delete_waits_for_grace_and_checks_the_uid(client: Client) -> None:
    """A bound pod is first marked as terminating; another UID is a Conflict; grace 0 removes the pod at once."""
    await client.create(PODS, build.pod("web"), namespace="default")
    await client.delete(PODS, "web", namespace="default")
    marked = await client.get(PODS, "web", namespace="default")
    assert marked.metadata.deletion_timestamp
    assert marked.metadata.deletion_grace_period_seconds == 30

    with pytest.raises(Conflict):
        await client.delete(PODS, "web", namespace="default", options=now_if_uid("another"))
    await client.delete(PODS, "web", namespace="default", options=now_if_uid(marked.metadata.uid))
    with pytest.raises(NotFound):
        await client.get(PODS, "web", namespace="default")


async def take(events: AsyncIterator[WatchEvent[ConfigMap]], count: int) -> list[tuple[str, str]]:
    taken: list[tuple[str, str]] = []
    async with asyncio.timeout(5):
        async for event in events:
            taken.append((event.type, event.object.metadata.name if event.object else ""))
            if len(taken) == count:
                break
    return taken


async def test_watch_gives_every_change_after_a_revision_in_order(client: Client, api: MemoryApi) -> None:
    """Changes between the revision and the opening of the watch are included; bookmarks are sent too."""
    start = (await client.list(CONFIG_MAPS)).resource_version
    await make(client, "a")
    async with client.watch(CONFIG_MAPS, namespace="default", resource_version=start) as events:
        await client.patch(CONFIG_MAPS, "a", {"data": {"k": "2"}}, namespace="default")
        await client.delete(CONFIG_MAPS, "a", namespace="default", options=NOW)
        api.bookmark()
        assert await take(events, 4) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("BOOKMARK", "")]


async def test_watched_object_that_leaves_the_selection_looks_deleted(client: Client) -> None:
    """Entering is ADDED, leaving is DELETED, other objects are not seen."""
    start = (await client.list(CONFIG_MAPS)).resource_version
    selection = Selection(labels="app=x")
    async with client.watch(CONFIG_MAPS, selection=selection, resource_version=start) as events:
        await make(client, "other", app="y")
        await make(client, "a", app="x")
        for app in ("y", "x"):
            await client.patch(CONFIG_MAPS, "a", {"metadata": {"labels": {"app": app}}}, namespace="default")
        assert await take(events, 3) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")]


async def test_watch_ends_when_its_time_is_up(client: Client) -> None:
    """The stream ends without an error; a bookmark may have named the last revision."""
    async with client.watch(CONFIG_MAPS, timeout_seconds=1) as events:
        assert [event async for event in events if event.type != "BOOKMARK"] == []


async def test_watch_from_a_forgotten_revision_is_expired(client: Client, api: MemoryApi) -> None:
    """The watch raises Expired (410), so the client has to list again."""
    start = (await client.list(CONFIG_MAPS)).resource_version
    await make(client, "a")
    api.compact()

    async def first_event() -> None:
        async with client.watch(CONFIG_MAPS, resource_version=start) as events:
            await anext(aiter(events))

    with pytest.raises(Expired):
        await first_event()


async def test_closed_watch_is_gone_from_the_server(client: Client, api: MemoryApi) -> None:
    """Leaving the context closes the stream."""
    async with client.watch(PODS) as events:
        await client.create(PODS, build.pod("web"), namespace="default")
        first: WatchEvent[Pod] = await anext(aiter(events))
        assert first.type == "ADDED"
    async with asyncio.timeout(5):
        while api.open_watches:
            await asyncio.sleep(0.01)
    assert api.open_watches == 0
