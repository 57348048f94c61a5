"""Objects follow manifest files, on a whole API server and virtual time: created, changed, kept and deleted."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from manifest_rig import DEFINITIONS, WIDGET_DEFINITION, WIDGETS, Cluster, config_map, namespace, widget
from pykubelet.api.schema import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES
from pykubelet.api.scheme import as_documents
from pykubelet.client.interface import PatchType
from pykubelet.testing.local_api import local_api

MAPS = as_documents(CONFIG_MAPS)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with local_api(tmp_path) as api:
        yield Cluster(api.client)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "manifests"
    path.mkdir()
    return path


async def test_objects_follow_every_document_of_their_files(cluster: Cluster, folder: Path) -> None:
    """Objects are created, updated and deleted with their documents, also those in a List.

    Pods are left to the kubelet.
    """
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n"
    items = "\n".join(f"- {line}" if line.startswith("api") else f"  {line}" for line in config_map("b").splitlines())
    path = folder / "a.yaml"
    path.write_text(f"{config_map('a')}---\n{pod}---\napiVersion: v1\nkind: List\nitems:\n{items}\n")
    async with cluster.following(folder):
        await cluster.expect(a="1", b="1")
        made = await cluster.get(CONFIG_MAPS, "a")
        assert made is not None
        assert made["metadata"]["labels"] == {"pykubelet.io/manifest": "created"}
        assert str(path) in made["metadata"]["annotations"]["pykubelet.io/manifest"]
        assert [entry["manager"] for entry in made["metadata"]["managedFields"]] == ["pykubelet-up"]
        path.write_text(config_map("a", "2"))
        await cluster.expect(a="2")
        path.unlink()
        await cluster.expect()
        assert cluster.told.open == {}
    assert cluster.told.lines == [
        f"created ConfigMap default/a from {path}",
        f"created ConfigMap default/b from {path}",
        f"updated ConfigMap default/a from {path}",
        f"deleted ConfigMap default/b, created from {path}",
        f"deleted ConfigMap default/a, created from {path}",
    ]


async def test_field_that_leaves_the_document_leaves_the_object(cluster: Cluster, folder: Path) -> None:
    """Server-side apply removes only fields that the file had set; fields of other managers stay."""
    path = folder / "a.yaml"
    path.write_text(f"{config_map('a').replace('v: ', 'w: x, v: ')}")
    async with cluster.following(folder):
        await cluster.client.patch(MAPS, "a", {"data": {"mine": "1"}}, namespace="default", patch_type=PatchType.MERGE)
        path.write_text(config_map("a", "2"))
        await cluster.expect(a="2")
        found = await cluster.get(CONFIG_MAPS, "a")
        assert found is not None
        assert found["data"] == {"v": "2", "mine": "1"}


async def test_order_of_files_does_not_matter(cluster: Cluster, folder: Path) -> None:
    """A custom resource may come before its CRD, an object before its namespace; no problem is reported."""
    (folder / "1.yaml").write_text(f"{widget('w')}---\n{WIDGET_DEFINITION}")
    (folder / "2.yaml").write_text(config_map("a", namespace="shop"))
    (folder / "3.yaml").write_text(namespace("shop"))
    async with cluster.following(folder):
        await cluster.expect(namespace="shop", a="1")

        async def is_made() -> bool:
            return await cluster.get(WIDGETS, "w") is not None

        await cluster.until(is_made)
        assert cluster.told.open == {}
        for number in (1, 2, 3):
            (folder / f"{number}.yaml").unlink()

        async def is_gone() -> bool:
            return not await cluster.get(DEFINITIONS, "widgets.example.com") and not await cluster.get(
                NAMESPACES, "shop"
            )

        await cluster.until(is_gone)


async def test_document_that_waits_is_reported_and_applied_when_it_can_be(cluster: Cluster, folder: Path) -> None:
    """An unknown kind and a missing namespace are reported with what to do about them; no restart is needed."""
    (folder / "w.yaml").write_text(f"# a widget\n{widget('w')}")
    (folder / "m.yaml").write_text(config_map("a", namespace="shop"))
    async with cluster.following(folder):
        await cluster.until_told(
            "w.yaml", "line 2: the server has no kind Widget of example.com/v1: create its CustomResource"
        )
        await cluster.until_told("m.yaml", 'line 1: namespaces "shop" not found: create the Namespace')
        (folder / "x.yaml").write_text(f"{namespace('shop')}---\n{WIDGET_DEFINITION}")
        await cluster.until_healed()
        assert await cluster.get(WIDGETS, "w") is not None
        await cluster.expect(namespace="shop", a="1")


async def test_rejected_document_is_reported_with_its_line_and_deletes_nothing(cluster: Cluster, folder: Path) -> None:
    """The server's validation errors are reported. No object is deleted while its file has a rejected document."""
    path = folder / "a.yaml"
    path.write_text(f"{config_map('a')}---\n{WIDGET_DEFINITION}---\n{widget('w', 3)}")
    async with cluster.following(folder):

        async def is_made() -> bool:
            return await cluster.get(WIDGETS, "w") is not None

        await cluster.until(is_made)
        path.write_text(f"{WIDGET_DEFINITION}---\n{widget('w', 0)}")
        await cluster.until_told("a.yaml", "line 20, column 7: size: Invalid value: 0")
        await cluster.expect(a="1")
        path.write_text(f"{WIDGET_DEFINITION}---\n{widget('w', 2)}sizes: 1\n")
        await cluster.until_told("a.yaml", ".sizes: field not declared in schema")
        await cluster.expect(a="1")
        path.write_text(f"{WIDGET_DEFINITION}---\n{widget('w', 2)}")
        await cluster.expect()
        found = await cluster.get(WIDGETS, "w")
        assert found is not None
        assert found["size"] == 2
        assert cluster.told.open == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: x-}\n",
            "line 3, column 11: metadata.name: a name is required",
        ),
        (
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: b, namespace: c}\n",
            "is cluster-scoped: remove the namespace",
        ),
        ("kind: ConfigMap\napiVersion: v1\ndatum: {}\n", "line 3, column 1: datum: unknown field"),
        ("kind: [", "did not find expected node content"),
    ],
    ids=["no name", "namespace too many", "unknown field", "no YAML"],
)
async def test_edit_that_makes_no_sense_keeps_the_object(cluster: Cluster, folder: Path, text: str, told: str) -> None:
    """The last valid version is kept, also across a restart of the controller."""
    path = folder / "a.yaml"
    path.write_text(config_map("a"))
    async with cluster.following(folder):
        path.write_text(text)
        await cluster.until_told("a.yaml", told)
    async with cluster.following(folder):
        await cluster.until_told("a.yaml", told)
        assert await cluster.values() == {"a": "1"}
        path.write_text(config_map("b"))
        await cluster.expect(b="1")


async def test_what_was_removed_meanwhile_is_deleted_at_the_next_start(cluster: Cluster, folder: Path) -> None:
    """Objects record the file that they follow. They are deleted even if no file is left."""
    (folder / "a.yaml").write_text(f"{config_map('a')}---\n{config_map('b')}")
    (folder / "n.yaml").write_text(namespace("shop"))
    async with cluster.following(folder):
        await cluster.expect(a="1", b="1")
    (folder / "a.yaml").write_text(config_map("b"))
    (folder / "n.yaml").unlink()
    async with cluster.following(folder):
        await cluster.expect(b="1")

        async def is_gone() -> bool:
            return await cluster.get(NAMESPACES, "shop") is None

        await cluster.until(is_gone)
    (folder / "a.yaml").unlink()
    async with cluster.following(folder):
        assert await cluster.values() == {}


def vanish(folder: Path) -> Path:
    folder.rename(folder.with_name("away"))
    return folder


def unmount(folder: Path) -> Path:
    vanish(folder).mkdir()
    return folder


def name_another(folder: Path) -> Path:
    return folder.with_name("other")


@pytest.mark.parametrize(
    ("happens", "place", "told"),
    [
        (vanish, "manifests", "path does not exist"),
        (unmount, "manifests", "was replaced by an empty folder; the objects created from it are kept"),
        (name_another, "a.yaml", "is no longer followed"),
    ],
)
async def test_missing_folder_at_the_start_deletes_nothing(
    happens: Callable[[Path], Path], place: str, told: str, cluster: Cluster, folder: Path
) -> None:
    """The folder may be unmounted, or not be followed any more. Nothing shows that its files were removed."""
    (folder / "a.yaml").write_text(config_map("a"))
    async with cluster.following(folder):
        await cluster.expect(a="1")
    async with cluster.following(happens(folder)):
        await cluster.until_told(place, told)
        assert await cluster.values() == {"a": "1"}


async def test_object_that_was_there_before_is_never_deleted(cluster: Cluster, folder: Path) -> None:
    """The file may change an existing object; when the file is removed, the object loses the controller's label."""
    await cluster.put("old", "0")
    path = folder / "a.yaml"
    path.write_text(f"{config_map('old', '2')}---\n{namespace('default')}")
    async with cluster.following(folder):
        await cluster.expect(old="2")
    path.unlink()
    async with cluster.following(folder):
        await cluster.until_healed()
        found = await cluster.get(CONFIG_MAPS, "old")
        assert found is not None
        assert "labels" not in found["metadata"] or not found["metadata"]["labels"]
        assert f"kept ConfigMap default/old, which existed before {path}" in cluster.told.lines
    async with cluster.following(folder):
        assert cluster.told.lines == []
        await cluster.expect(old="2")


async def test_copy_of_an_object_with_all_its_marks_is_left_alone(cluster: Cluster, folder: Path) -> None:
    """A user saved the object under another name, so it does not belong to the file."""
    path = folder / "a.yaml"
    path.write_text(config_map("a"))
    async with cluster.following(folder):
        found = await cluster.get(CONFIG_MAPS, "a")
        assert found is not None
        marks = {key: found["metadata"][key] for key in ("labels", "annotations")}
        await cluster.client.create(MAPS, {**found, "metadata": {"name": "copy", **marks}}, namespace="default")
        path.unlink()
        await cluster.expect(copy="1")
    async with cluster.following(folder):
        await cluster.expect(copy="1")


async def test_change_by_others_stays_and_a_deleted_object_comes_back(cluster: Cluster, folder: Path) -> None:
    """A restart does not reapply an unchanged document, but a deleted object is recreated."""
    path = folder / "a.yaml"
    path.write_text(f"{namespace('shop')}---\n{config_map('a', namespace='shop')}")
    async with cluster.following(folder):
        await cluster.expect(namespace="shop", a="1")
        await cluster.client.patch(MAPS, "a", {"data": {"v": "9"}}, namespace="shop", patch_type=PatchType.MERGE)
    async with cluster.following(folder):
        assert await cluster.values(namespace="shop") == {"a": "9"}
        await cluster.delete_namespace("shop")
        await cluster.expect(namespace="shop", a="1")
        await cluster.until_healed()


async def test_several_paths_are_one_source(cluster: Cluster, folder: Path) -> None:
    """Files and folders can be mixed.

    Of two documents for one object the first wins, and keeps it when another appears.
    """
    second, single = folder.with_name("second"), folder.with_name("single.yaml")
    second.mkdir()
    (folder / "z.yaml").write_text(config_map("a", "folder"))
    (second / "b.yaml").write_text(config_map("a", "second"))
    single.write_text(config_map("c"))
    async with cluster.following(folder, second, single, folder / "z.yaml"):
        await cluster.expect(a="folder", c="1")
        assert cluster.told.open == {"b.yaml": f"ConfigMap default/a is ignored here: {folder}/z.yaml defines it"}
        (folder / "z.yaml").unlink()
        await cluster.expect(a="second", c="1")
    (folder / "y.yaml").write_text(config_map("a", "late"))
    async with cluster.following(folder, second, single):
        await cluster.expect(a="second", c="1")
        assert list(cluster.told.open) == ["y.yaml"]
        single.unlink()
        await cluster.expect(a="second")


async def test_workload_is_applied_with_its_defaults(cluster: Cluster, folder: Path) -> None:
    """The kind has lists merged by key, so an edit changes one container only."""
    path = folder / "web.yaml"
    text = (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n"
        "  template:\n    metadata: {labels: {app: web}}\n    spec:\n      containers:\n"
        "      - {name: a, image: a:1}\n      - {name: b, image: b:1}\n"
    )
    path.write_text(text)
    async with cluster.following(folder):
        path.write_text(text.replace("a:1", "a:2"))

        async def images() -> list[str]:
            found = await cluster.get(DEPLOYMENTS, "web")
            return [] if found is None else [one["image"] for one in found["spec"]["template"]["spec"]["containers"]]

        async def is_changed() -> bool:
            return await images() == ["a:2", "b:1"]

        await cluster.until(is_changed)
        assert cluster.told.open == {}


async def test_object_of_a_file_that_was_broken_at_the_start_goes_with_the_file(cluster: Cluster, folder: Path) -> None:
    """Objects of an earlier run are remembered, also if no document that can be read has their kind."""
    path = folder / "a.yaml"
    path.write_text(config_map("a"))
    async with cluster.following(folder):
        await cluster.expect(a="1")
    path.write_text("kind: [")
    async with cluster.following(folder):
        assert await cluster.values() == {"a": "1"}
        path.unlink()
        await cluster.expect()
