"""Spec 2.12-27 to 34 and 41 to 43: the sources of files and of the API server, on virtual time.

Time jumps to the next periodic scan, so inotify hints play no part here; see real/test_file_source.py.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.generated.core import Container, ObjectReference, Pod, PodSpec, Toleration
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.pods import CONFIG_HASH
from pykubelet.api.scheme import TypedKind
from pykubelet.client.interface import EVERYTHING, Listing, Selection, WatchEvent
from pykubelet.client.manifests.last_known_good import SourceProblem
from pykubelet.kubelet.config.apiserver import ApiServerSource
from pykubelet.kubelet.config.config import PodConfig, SourceChannel
from pykubelet.kubelet.config.file import FileSource
from pykubelet.kubelet.types import PodOperation, PodSource, PodUpdate
from pykubelet.testing.virtual_time import VirtualClock

NODE = "node1"


class Reported:
    """Records the open problems of the sources by place, as users see them."""

    def __init__(self) -> None:
        self.open: dict[str, str] = {}

    def report(self, problem: SourceProblem) -> None:
        self.open[problem.where] = problem.message

    def clear(self, source: str, where: str) -> None:
        del self.open[where]


class Files:
    """A running FileSource and the problems it reports."""

    def __init__(self, path: Path) -> None:
        self.channel, self.problems = SourceChannel(PodSource.FILE), Reported()
        self.source = FileSource(path=path, node_name=NODE, channel=self.channel, problems=self.problems)

    async def next_set(self) -> tuple[Pod, ...]:
        async with asyncio.timeout(100):
            update = await self.channel.receive()
        assert update.op is PodOperation.SET
        return update.pods

    async def next_containers(self) -> list[str]:
        return [pod.spec.containers[0].name for pod in await self.next_set()]

    async def is_silent(self) -> bool:
        """Whether the source sends nothing during several periods."""
        try:
            await self.next_set()
        except TimeoutError:
            return True
        return False


@asynccontextmanager
async def following(path: Path) -> AsyncIterator[Files]:
    files = Files(path)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(files.source.run(asyncio.Event()))
        yield files
        running.cancel()


def manifest(name: str = "test", container: str = "image", **metadata: str) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "mynamespace", **metadata},
            "spec": {"containers": [{"name": container, "image": "test/image"}]},
        }
    )


@pytest.mark.parametrize("number", [pytest.param("2.12-27", id="2.12-27 missing path: an empty SET, and a problem")])
async def test_missing_path_is_an_empty_source(number: str, tmp_path: Path) -> None:
    async with following(tmp_path / "missing") as files:
        assert await files.next_set() == ()
        assert files.problems.open == {str(tmp_path / "missing"): "path does not exist"}


@pytest.mark.parametrize("number", [pytest.param("2.12-28", id="2.12-28 an existing manifest, with all defaults")])
async def test_existing_manifest_is_read(number: str, tmp_path: Path) -> None:
    (tmp_path / "test.yaml").write_text(manifest(uid="12345"))
    async with following(tmp_path / "test.yaml") as files:
        [pod] = await files.next_set()
    assert (pod.metadata.name, pod.metadata.namespace, pod.metadata.uid) == ("test-node1", "mynamespace", "12345")
    assert pod.metadata.annotations == {CONFIG_HASH: "12345"}
    assert (pod.spec.node_name, pod.spec.restart_policy, pod.spec.dns_policy) == (NODE, "Always", "ClusterFirst")
    assert (pod.spec.termination_grace_period_seconds, pod.spec.enable_service_links) == (30, True)
    assert pod.spec.tolerations == (Toleration(operator="Exists", effect="NoExecute"),)
    [container] = pod.spec.containers
    assert (container.termination_message_path, container.image_pull_policy) == ("/dev/termination-log", "Always")
    assert container.termination_message_policy == "File"
    assert pod.status.phase == "Pending"


@pytest.mark.parametrize(
    "number", [pytest.param("2.12-29", id="2.12-29 unparsable single file: nothing, and a problem")]
)
async def test_unparsable_file_sends_nothing(number: str, tmp_path: Path) -> None:
    path = tmp_path / "test.yaml"
    path.write_bytes(b"\x00 nonsense")
    async with following(path) as files:
        assert await files.is_silent()
        assert list(files.problems.open) == [str(path)]


@pytest.mark.parametrize("number", [pytest.param("2.12-30", id="2.12-30 empty folder: an empty SET")])
async def test_empty_folder_is_an_empty_source(number: str, tmp_path: Path) -> None:
    async with following(tmp_path) as files:
        assert await files.next_set() == ()
        assert files.problems.open == {}


@pytest.mark.parametrize(
    ("in_folder", "is_link"),
    [
        pytest.param(
            in_folder, is_link, id=f"2.12-31 added later, {'folder' if in_folder else 'file'}, link: {is_link}"
        )
        for in_folder in (True, False)
        for is_link in (True, False)
    ],
)
async def test_file_added_later(in_folder: bool, is_link: bool, tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    path = folder / "test.yaml"
    async with following(folder if in_folder else path) as files:
        assert await files.next_set() == ()
        if is_link:
            (tmp_path / "target").write_text(manifest())
            path.symlink_to(tmp_path / "target")
        else:
            path.write_text(manifest())
        assert await files.next_containers() == ["image"]


@pytest.mark.parametrize("in_folder", [pytest.param(True, id="2.12-32 folder"), pytest.param(False, id="2.12-32 file")])
async def test_file_changed_and_renamed(in_folder: bool, tmp_path: Path) -> None:
    path = tmp_path / "test.yaml"
    path.write_text(manifest())
    async with following(tmp_path if in_folder else path) as files:
        [before] = await files.next_set()
        path.write_text(manifest(container="image2"))
        [after] = await files.next_set()
        assert after.spec.containers[0].name == "image2"
        assert before.metadata.uid != after.metadata.uid
        path.rename(tmp_path / "renamed.yaml")
        # Upstream sees a rename as two events, a scan here as one change. The path is part of the identity.
        renamed = await files.next_set()
        assert [pod.metadata.uid == after.metadata.uid for pod in renamed] == ([False] if in_folder else [])


@pytest.mark.parametrize("number", [pytest.param("2.12-33", id="2.12-33 dot files are ignored")])
async def test_dot_files_are_ignored(number: str, tmp_path: Path) -> None:
    (tmp_path / ".test.yaml").write_text(manifest())
    async with following(tmp_path) as files:
        assert await files.next_set() == ()
        (tmp_path / ".other.yaml").write_text(manifest())
        assert await files.is_silent()


@pytest.mark.parametrize("number", [pytest.param("2.12-34", id="2.12-34 one good and one bad file: the good one")])
async def test_bad_file_does_not_spoil_the_rest(number: str, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("kind: [")
    (tmp_path / "good.yaml").write_text(manifest())
    async with following(tmp_path) as files:
        assert await files.next_containers() == ["image"]
        assert list(files.problems.open) == [str(tmp_path / "bad.yaml")]


@pytest.mark.parametrize(
    ("uid", "expected"),
    [
        pytest.param("12345", ["UPDATE image2"], id="2.6 explicit uid: an edit is an update"),
        pytest.param("", ["REMOVE image", "ADD image2"], id="2.4 no uid: an edit is another pod"),
    ],
)
async def test_edit_of_a_static_pod(uid: str, expected: list[str], tmp_path: Path) -> None:
    config = PodConfig(clock=VirtualClock(), recorder=Silent())
    source = FileSource(path=tmp_path, node_name=NODE, channel=config.channel("file"), problems=Reported())
    path = tmp_path / "test.json"
    path.write_text(manifest(uid=uid))
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(part.run(asyncio.Event())) for part in (config, source)]
        assert (await anext(config.updates())).op is PodOperation.ADD
        path.write_text(manifest(container="image2", uid=uid))
        updates = [await anext(config.updates()) for _ in expected]
        for task in running:
            task.cancel()
    assert [f"{update.op.name} {update.pods[0].spec.containers[0].name}" for update in updates] == expected


async def test_every_document_and_list_item_counts(tmp_path: Path) -> None:
    """Upstream reads only the first document of a file."""
    items = {"apiVersion": "v1", "kind": "List", "items": [json.loads(manifest(name)) for name in ("b", "c")]}
    (tmp_path / "all.yaml").write_text(f"{manifest('a')}\n---\n{json.dumps(items)}\n")
    async with following(tmp_path) as files:
        assert [pod.metadata.name for pod in await files.next_set()] == ["a-node1", "b-node1", "c-node1"]


class Server:
    """A client of an API server that holds some pods: a list, and a watch fed by the test."""

    def __init__(self, *pods: Pod) -> None:
        self.pods, self.events = pods, asyncio.Queue[WatchEvent[Any]]()
        self.selections: list[Selection] = []

    async def get(self, kind: TypedKind[Any], name: str, *, namespace: str = "", resource_version: str = "") -> Any:
        raise NotImplementedError

    async def list(
        self,
        kind: TypedKind[Any],
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        resource_version: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> Listing[Any]:
        self.selections.append(selection)
        return Listing(self.pods, "1")

    @asynccontextmanager
    async def watch(
        self,
        kind: TypedKind[Any],
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        resource_version: str = "",
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        async def events() -> AsyncIterator[WatchEvent[Any]]:
            while True:
                yield await self.events.get()

        self.selections.append(selection)
        yield events()


class Silent:
    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        raise AssertionError(message)


def bound(name: str, version: int, namespace: str = "ns", uid: str = "") -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=uid or name + namespace, resource_version=str(version)),
        spec=PodSpec(node_name=NODE, containers=(Container(name="c", image=f"v{version}"),)),
    )


@asynccontextmanager
async def node_of(server: Server) -> AsyncIterator[PodConfig]:
    config = PodConfig(clock=VirtualClock(), recorder=Silent())
    known = asyncio.Event()
    source = ApiServerSource(
        client=server, node_name=NODE, node_known=known, channel=config.channel(PodSource.API), clock=VirtualClock()
    )
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(part.run(asyncio.Event())) for part in (config, source)]
        await asyncio.sleep(1)
        assert server.selections == []
        known.set()
        yield config
        for task in running:
            task.cancel()


def told(update: PodUpdate) -> tuple[str, list[str]]:
    return update.op.name, [f"{pod.metadata.name}:{pod.spec.containers[0].image}" for pod in update.pods]


def held(config: PodConfig) -> set[str]:
    return {f"{pod.metadata.namespace}/{pod.metadata.name}:{pod.spec.containers[0].image}" for pod in config.pods()}


P1, P2, Q3 = bound("p", 1), bound("p", 2), bound("q", 3)


@pytest.mark.parametrize(
    ("first", "events"),
    [
        pytest.param(
            [P1],
            [
                ("ADDED", Q3, ("ADD", ["q:v3"]), {"ns/p:v1", "ns/q:v3"}),
                ("MODIFIED", bound("p", 4), ("UPDATE", ["p:v4"]), {"ns/p:v4", "ns/q:v3"}),
                ("DELETED", bound("p", 5), ("REMOVE", ["p:v4"]), {"ns/q:v3"}),
                ("DELETED", bound("q", 6), ("REMOVE", ["q:v3"]), set()),
            ],
            id="2.12-41 list, add, modify, delete; only the changed pod is sent",
        ),
        pytest.param(
            [bound("p", 1, "a"), bound("p", 1, "b")],
            [("DELETED", bound("p", 2, "a"), ("REMOVE", ["p:v1"]), {"b/p:v1"})],
            id="2.12-42 one name in two namespaces",
        ),
        pytest.param([], [("ADDED", P2, ("ADD", ["p:v2"]), {"ns/p:v2"})], id="2.12-43 initial empty list"),
    ],
)
async def test_api_server_pods_arrive(first: list[Pod], events: list[Any]) -> None:
    server = Server(*first)
    async with node_of(server) as config:
        initial = await anext(config.updates())
        assert (initial.op, len(initial.pods)) == (PodOperation.ADD, len(first))
        assert config.is_ready(PodSource.API)
        for type, pod, expected, content in events:
            server.events.put_nowait(WatchEvent(type, pod, pod.metadata.resource_version))
            assert told(await anext(config.updates())) == expected
            assert held(config) == content
    assert {selection.fields for selection in server.selections} == {f"spec.nodeName={NODE}"}


async def test_recreated_pod_replaces_its_predecessor() -> None:
    """A new UID under the same name removes the old pod before it adds the new one, even without a deletion event."""
    server = Server(P1)
    async with node_of(server) as config:
        await anext(config.updates())
        server.events.put_nowait(WatchEvent("MODIFIED", bound("p", 7, uid="new"), "7"))
        assert [told(await anext(config.updates())) for _ in range(2)] == [("REMOVE", ["p:v1"]), ("ADD", ["p:v7"])]
