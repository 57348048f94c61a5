"""FileSource with real files, the ways editors save, and inotify; far faster than its 20 s period."""

import asyncio
import os
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pykubelet.aio.log import facts_of
from pykubelet.api.generated.core import Pod
from pykubelet.client.manifests.last_known_good import FileReading, PathView, SourceProblem, advance
from pykubelet.client.manifests.scanner import ScanHints, Scanner
from pykubelet.kubelet.config.config import SourceChannel
from pykubelet.kubelet.config.file import FileSource
from pykubelet.kubelet.types import PodOperation, PodSource


class Reported:
    """The source's problems as a user would see them, by file name."""

    def __init__(self) -> None:
        self.open: dict[str, str] = {}
        self.ever: list[SourceProblem] = []

    def report(self, problem: SourceProblem) -> None:
        self.ever.append(problem)
        self.open[Path(problem.where).name] = problem.message

    def clear(self, source: str, where: str) -> None:
        del self.open[Path(where).name]


class Files:
    """A running FileSource, its last SET and its problems."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.channel, self.problems = SourceChannel(PodSource.FILE), Reported()
        self.source = FileSource(path=path, node_name="n", channel=self.channel, problems=self.problems, **options)
        self.pods: tuple[Pod, ...] | None = None
        self.sets = 0

    async def listen(self) -> None:
        while True:
            update = await self.channel.receive()
            assert update.op is PodOperation.SET
            self.pods = update.pods
            self.sets += 1

    def images(self) -> dict[str, str] | None:
        """Image by pod name, without the node's name."""
        if self.pods is None:
            return None
        return {pod.metadata.name.removesuffix("-n"): pod.spec.containers[0].image for pod in self.pods}

    async def expect(self, **images: str) -> None:
        """Wait until exactly these pods are there, with these images."""
        await self.until_true(lambda: self.images() == images)

    async def until_true(self, holds: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(5):
                while not holds():
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError(f"last: {self.images()}, {self.problems.open}") from None


@asynccontextmanager
async def following(path: Path, *, also: tuple[Path, ...] = (), **options: Any) -> AsyncIterator[Files]:
    files, ready = Files(path, paths=also, **options), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(files.source.run(ready)), tasks.create_task(files.listen())]
        await ready.wait()
        await asyncio.sleep(0.02)
        yield files
        for task in running:
            task.cancel()


def manifest(name: str = "web", image: str = "v1", *, uid: str = "") -> str:
    lines = ["apiVersion: v1", "kind: Pod", f"metadata: {{name: {name}, uid: '{uid}'}}", "spec:", "  containers:"]
    return "\n".join([*lines, f"  - {{name: c, image: {image}}}", ""])


NOTHING_KNOWN: PathView[bytes] = PathView(path="")


def scanner(path: Path) -> Scanner[bytes]:
    return Scanner(path=path, read=lambda data, _: FileReading(items=(data,)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "manifests"
    path.mkdir()
    return path


def move(path: Path, target: Path) -> None:
    path.rename(target)


def make(path: Path) -> None:
    path.mkdir()


def vim(path: Path, text: str) -> None:
    """Moves the old file away, writes a new one, removes the old; a swap file exists meanwhile."""
    swap, backup = path.with_name(f".{path.name}.swp"), path.with_name(f"{path.name}~")
    swap.write_bytes(b"b0VIM")
    path.with_name("4913").touch()
    path.with_name("4913").unlink()
    path.rename(backup)
    path.write_text(text)
    backup.unlink()
    swap.unlink()


def nano(path: Path, text: str) -> None:
    """Writes over the old file."""
    path.write_text(text)


def sed(path: Path, text: str) -> None:
    """Renames a temporary file into place."""
    temporary = path.with_name("sedXYZ123")
    temporary.write_text(text)
    temporary.rename(path)


def emacs(path: Path, text: str) -> None:
    """Autosaves and locks beside the file, keeps a backup."""
    lock = path.with_name(f".#{path.name}")
    lock.symlink_to("someone@host.123")
    path.with_name(f"#{path.name}#").write_text(text)
    shutil.copy(path, path.with_name(f"{path.name}~"))
    path.write_text(text)
    path.with_name(f"#{path.name}#").unlink()
    lock.unlink()


@pytest.mark.parametrize("edit", [vim, nano, sed, emacs])
@pytest.mark.parametrize("extensions", [(".yaml",), ("",)], ids=["yaml", "any"])
async def test_edit_is_seen_once_whatever_the_editor(
    edit: Callable[[Path, str], None], extensions: tuple[str, ...], folder: Path
) -> None:
    """No editor's way of saving removes the pod in between or adds a second one."""
    path = folder / "web.yaml"
    path.write_text(manifest())
    async with following(folder, extensions=extensions) as files:
        await files.expect(web="v1")
        edit(path, manifest(image="v2"))
        await files.expect(web="v2")
        await asyncio.sleep(0.15)
        assert files.images() == {"web": "v2"}
        assert files.sets == 2
        assert files.problems.open == {}


async def test_real_sed_edits_in_place(folder: Path) -> None:
    """The edit is made by `sed -i` itself."""
    path = folder / "web.yaml"
    path.write_text(manifest())
    async with following(folder) as files:
        await files.expect(web="v1")
        await asyncio.to_thread(subprocess.run, ["sed", "-i", "s/image: v1/image: v2/", str(path)], check=True)
        await files.expect(web="v2")
        assert files.sets == 2


async def test_rename_and_removal_are_followed(folder: Path) -> None:
    """A renamed manifest is a pod with another UID; a removed manifest removes its pod."""
    (folder / "a.yaml").write_text(manifest())
    async with following(folder) as files:
        await files.expect(web="v1")
        assert files.pods
        before = files.pods[0].metadata.uid
        (folder / "a.yaml").rename(folder / "b.yaml")
        await files.until_true(lambda: [pod.metadata.uid for pod in files.pods or ()] != [before])
        (folder / "b.yaml").unlink()
        await files.expect()
        assert files.problems.ever == []
        assert files.sets == 3


async def test_config_map_swap_is_seen(folder: Path) -> None:
    """In a mounted config map files are links through `..data`, which is swapped for the next version."""
    for version in ("v1", "v2"):
        (folder / f"..{version}").mkdir()
        (folder / f"..{version}" / "web.yaml").write_text(manifest(image=version))
    (folder / "..data").symlink_to("..v1")
    (folder / "web.yaml").symlink_to("..data/web.yaml")
    async with following(folder) as files, following(folder / "web.yaml") as single:
        await files.expect(web="v1")
        await single.expect(web="v1")
        (folder / "..data_tmp").symlink_to("..v2")
        (folder / "..data_tmp").rename(folder / "..data")
        await files.expect(web="v2")
        await single.expect(web="v2")
        assert files.sets == 2


async def test_folder_link_swap_is_seen(tmp_path: Path) -> None:
    """The path itself may be a link that is swapped."""
    for version in ("v1", "v2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "web.yaml").write_text(manifest(image=version))
    link = tmp_path / "manifests"
    link.symlink_to("v1")
    async with following(link) as files:
        await files.expect(web="v1")
        (tmp_path / "tmp").symlink_to("v2")
        (tmp_path / "tmp").rename(link)
        await files.expect(web="v2")
        (tmp_path / "v2" / "more.yaml").write_text(manifest("more"))
        await files.expect(web="v2", more="v1")


async def test_half_written_file_is_not_read(folder: Path) -> None:
    """Half a manifest may parse and mean something else; it is read when its writer closes it."""
    path = folder / "two.yaml"
    first, second = manifest("one", uid="1"), manifest("two", uid="2")
    path.write_text(f"{first}---\n{second}")
    async with following(folder) as files:
        await files.expect(one="v1", two="v1")
        with path.open("w") as file:
            file.write(first)
            file.flush()
            await asyncio.sleep(0.3)
            assert files.images() == {"one": "v1", "two": "v1"}
            file.write(f"---\n{manifest('two', 'v2', uid='2')}")
        await files.expect(one="v1", two="v2")
        assert files.sets == 2
        assert files.problems.open == {}


async def test_broken_file_keeps_its_pods_until_it_is_mended(folder: Path) -> None:
    """An invalid file removes no pod; its problem is reported, and cleared once the file is valid."""
    path = folder / "web.yaml"
    path.write_text(manifest())
    (folder / "other.yaml").write_text(manifest("other"))
    async with following(folder) as files:
        await files.expect(web="v1", other="v1")
        for broken in ("kind: [", "", "# nothing\n", manifest().replace("image:", "imagine:")):
            path.write_text(broken)
            await files.until_true(lambda: "web.yaml" in files.problems.open)
            assert files.images() == {"web": "v1", "other": "v1"}
            path.write_text(manifest())
            await files.until_true(lambda: not files.problems.open)
        path.write_text("apiVersion: v1\nkind: PodList\nitems: []\n")
        await files.expect(other="v1")
        assert files.problems.open == {}


async def test_folder_moved_away_keeps_its_pods(folder: Path) -> None:
    """A missing folder, as after an unmount, removes no pod, and neither does a new, empty folder."""
    (folder / "web.yaml").write_text(manifest())
    async with following(folder) as files:
        await files.expect(web="v1")
        move(folder, folder.with_name("away"))
        await files.until_true(lambda: "manifests" in files.problems.open)
        make(folder)
        await files.until_true(lambda: "another, empty folder" in files.problems.open.get("manifests", ""))
        # A folder may be moved onto an empty one.
        move(folder.with_name("away"), folder)
        await files.until_true(lambda: not files.problems.open)
        assert files.images() == {"web": "v1"}
        assert files.sets == 1
        (folder / "web.yaml").unlink()
        await files.expect()


async def test_path_that_comes_later_is_followed(tmp_path: Path) -> None:
    """Even its parent may be missing at the start."""
    path = tmp_path / "a" / "b"
    async with following(path) as files:
        await files.expect()
        assert files.problems.open == {"b": "path does not exist"}
        path.mkdir(parents=True)
        (path / "web.yaml").write_text(manifest())
        await files.expect(web="v1")
        assert files.problems.open == {}


async def test_removed_single_file_removes_its_pod(folder: Path) -> None:
    """If the path is a file, removing the file removes its pod."""
    path = folder / "web.yaml"
    path.write_text(manifest())
    async with following(path) as files:
        await files.expect(web="v1")
        path.unlink()
        await files.expect()
        sed(path, manifest(image="v2"))
        await files.expect(web="v2")


async def test_fifo_folder_and_broken_link_are_not_read(folder: Path) -> None:
    """A FIFO, which would block its reader, and a broken link are problems; a sub-folder is ignored."""
    os.mkfifo(folder / "pipe.yaml")
    (folder / "sub.yaml").mkdir()
    (folder / "lost.yaml").symlink_to("nowhere")
    (folder / "web.yaml").write_text(manifest())
    async with following(folder) as files:
        await files.expect(web="v1")
        assert files.problems.open == {"pipe.yaml": "is not a regular file", "lost.yaml": "is a link to nothing"}
    async with following(folder / "pipe.yaml") as single:
        await single.until_true(lambda: bool(single.problems.open))
        assert single.pods is None


@pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o666, 0o755), (0o644, 0o1777)])
def test_manifest_that_everybody_may_write_is_read_and_warned_about(
    folder: Path, caplog: pytest.LogCaptureFixture, file_mode: int, folder_mode: int
) -> None:
    """It is read, as upstream does; one warning says who may write it and how to forbid that."""
    (folder / "web.yaml").write_text(manifest())
    (folder / "web.yaml").chmod(file_mode)
    folder.chmod(folder_mode)
    scan = scanner(folder).scan(NOTHING_KNOWN, ScanHints())
    assert list(scan.files) == [str(folder / "web.yaml")]
    told = [facts_of(record) for record in caplog.records if record.levelname == "WARNING"]
    assert [one["writable_by"] for one in told] == ["everybody (chmod o-w)"]


def test_link_to_itself_is_a_problem(folder: Path) -> None:
    """It is an unreadable file, not a missing one; in a folder it is a problem of that file alone."""
    loop = folder / "loop.yaml"
    loop.symlink_to(loop)
    scan = scanner(loop).scan(NOTHING_KNOWN, ScanHints())
    assert (scan.folder, scan.is_definite) == (None, False)
    assert scan.problem.startswith("cannot be read: ")
    reading = scanner(folder).scan(NOTHING_KNOWN, ScanHints()).files[str(loop)]
    assert reading
    assert reading.problem == scan.problem


def test_file_that_grows_while_it_is_read_is_unstable(folder: Path) -> None:
    """What was read belongs to no single version of the file, so the scan returns nothing for it."""
    path, stop = folder / "web.yaml", threading.Event()
    path.write_bytes(bytes(8 * 2**20))

    def grow() -> None:
        with path.open("ab", buffering=0) as file:
            while not stop.is_set():
                file.write(b"x")

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        growing = scanner(folder)
        scans = (growing.scan(NOTHING_KNOWN, ScanHints()) for _ in range(200))
        unstable = next(scan for scan in scans if scan.unstable)
    finally:
        stop.set()
        writer.join()
    assert unstable.unstable == frozenset({"web.yaml"})
    assert unstable.files[str(path)] is None


@pytest.mark.parametrize("in_folder", [True, False], ids=["folder", "file"])
def test_file_moved_away_by_an_editor_is_not_gone_yet(in_folder: bool, folder: Path) -> None:
    """A scan between the two steps of a save keeps the file; if it is still missing later, it was removed."""
    path = folder / "web.yaml"
    path.write_text(manifest())
    looking = scanner(folder if in_folder else path)

    def seen(view: PathView[bytes], hints: ScanHints) -> PathView[bytes]:
        return advance(view, looking.scan(view, hints), name_of=lambda _: "", noun="things")

    before = seen(NOTHING_KNOWN, ScanHints())
    path.unlink()
    during = seen(before, ScanHints(unsettled={"web.yaml"}))
    assert during == before
    assert during.files[str(path)].items == (manifest().encode(),)
    assert seen(during, ScanHints(changed={"web.yaml"})).files == {}


async def test_huge_file_is_refused(folder: Path) -> None:
    """A file of 10 MiB or more is a problem, and its pods stay as they were."""
    (folder / "web.yaml").write_text(manifest())
    async with following(folder) as files:
        await files.expect(web="v1")
        (folder / "web.yaml").write_text(manifest(image="v2") + "#" * 10 * 2**20)
        await files.until_true(lambda: "read limit" in files.problems.open.get("web.yaml", ""))
        assert files.images() == {"web": "v1"}


async def test_second_file_of_a_pod_loses(folder: Path) -> None:
    """The first file keeps the pod, though the second sorts before it; when the first is removed the second is used."""
    (folder / "b.yaml").write_text(manifest(image="b"))
    async with following(folder) as files:
        await files.expect(web="b")
        (folder / "a.yaml").write_text(manifest(image="a"))
        await files.until_true(lambda: "b.yaml defines it" in files.problems.open.get("a.yaml", ""))
        assert files.images() == {"web": "b"}
        (folder / "b.yaml").unlink()
        await files.expect(web="a")
        assert files.problems.open == {}


async def test_quick_edits_end_in_the_last_one(folder: Path) -> None:
    """A burst of a thousand edits gives fewer than 20 SETs, and the last edit is in effect."""
    path = folder / "web.yaml"
    path.write_text(manifest())
    async with following(folder) as files:
        await files.expect(web="v1")
        for number in range(1000):
            path.write_text(manifest(image=f"e{number}", uid="1"))
            if number % 50 == 0:
                await asyncio.sleep(0)
        await files.expect(web="e999")
        assert files.sets < 20


async def test_many_files_at_once_come_together(folder: Path) -> None:
    """Thirty manifests written into the folder at once give only a few SETs."""
    async with following(folder) as files:
        await files.expect()
        for number in range(30):
            (folder / f"{number}.yaml").write_text(manifest(f"p{number}"))
        await files.expect(**{f"p{number}": "v1" for number in range(30)})
        assert files.sets <= 4


def two_folders(folder: Path) -> Path:
    """A second folder beside the first."""
    second = folder.with_name("second")
    second.mkdir()
    return second


async def test_several_paths_are_one_source(folder: Path) -> None:
    """Of two paths that define one pod the first is used, and the other once the first no longer defines it."""
    second, single = two_folders(folder), folder.with_name("single.yaml")
    (folder / "z.yaml").write_text(manifest(image="first"))
    (second / "a.yaml").write_text(manifest(image="second"))
    single.write_text(manifest("one"))
    async with following(folder, also=(second, single, single)) as files:
        await files.expect(web="first", one="v1")
        assert files.problems.open == {"a.yaml": f"pod default/web-n is ignored here: {folder}/z.yaml defines it"}
        (second / "b.yaml").write_text(manifest("more"))
        await files.expect(web="first", one="v1", more="v1")
        single.unlink()
        await files.expect(web="first", more="v1")
        (folder / "z.yaml").unlink()
        await files.expect(web="second", more="v1")
        assert list(files.problems.open) == ["single.yaml"]


async def test_path_that_vanishes_keeps_its_pods_and_holds_up_no_other(folder: Path) -> None:
    """Neither an unmounted folder nor an invalid file keeps changes of another path from being seen."""
    second, broken = two_folders(folder), folder.with_name("broken.yaml")
    (folder / "web.yaml").write_text(manifest())
    broken.write_text("kind: [")
    async with following(folder, also=(second, broken)) as files:
        await files.expect(web="v1")
        move(folder, folder.with_name("away"))
        await files.until_true(lambda: "pods known from it are kept" in files.problems.open.get("manifests", ""))
        (second / "b.yaml").write_text(manifest("more"))
        await files.expect(web="v1", more="v1")
        assert set(files.problems.open) == {"manifests", "broken.yaml"}


@pytest.mark.parametrize("skips", [True, False], ids=["skipped", "refused"])
async def test_document_of_another_kind_is_a_problem_unless_it_is_skipped(skips: bool, folder: Path) -> None:
    """With `skips_other_kinds` a file may also have objects that another component applies."""
    service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\n"
    (folder / "web.yaml").write_text(manifest() + service)
    async with following(folder, skips_other_kinds=skips) as files:
        await files.expect(web="v1")
        refusal = {"web.yaml": "line 8: invalid pod: this is a Service of v1"}
        assert files.problems.open == ({} if skips else refusal)
