"""Which objects are applied and deleted, given the files and the objects applied before."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manifest_rig import config_map, namespace, widget
from pykubelet.api.schema import CONFIG_MAPS, NAMESPACES, Resource
from pykubelet.client.manifests.last_known_good import FileReading, FoundManifests, PathView
from pykubelet.controllers.manifests.controller import ManifestPlan, make_plan
from pykubelet.controllers.manifests.desired import (
    AppliedObject,
    ManifestDocument,
    ManifestObject,
    ManifestReference,
    kinds_of,
    read_manifest_documents,
)

SERVICES = Resource("", "v1", "services", "Service")
KINDS = kinds_of((CONFIG_MAPS, NAMESPACES, SERVICES))
INODE = 7


def found(
    files: dict[str, str], *, inode: int = INODE, vanished: bool = False, definite: bool = True
) -> FoundManifests[ManifestDocument]:
    readings = {path: read_manifest_documents(text.encode(), path) for path, text in sorted(files.items())}
    view = PathView(
        path="/m",
        files=readings,
        folder=(1, inode),
        is_folder=True,
        has_vanished=vanished,
        is_definite=definite,
    )
    return FoundManifests((view,))


def gone(folder: tuple[int, int]) -> FoundManifests[ManifestDocument]:
    """A path that was followed as a single file and no longer exists."""
    return FoundManifests((PathView(path="/m/a", folder=folder, is_definite=True),))


def object_of(
    name: str, file: str, *, created: bool = True, ending: bool = False, kind: str = "ConfigMap"
) -> AppliedObject:
    identity = ManifestObject("", kind, "" if kind == "Namespace" else "default", name)
    mark = ManifestReference(object=str(identity), file=file, folder=INODE, digest="another")
    resource = {"ConfigMap": CONFIG_MAPS, "Namespace": NAMESPACES}[kind]
    return AppliedObject(
        identity=identity, resource=resource, uid=name, mark=mark, is_created=created, is_ending=ending
    )


def done(plan: ManifestPlan, before: list[AppliedObject]) -> list[AppliedObject]:
    """The applied objects after executing the plan."""
    gone = {each.identity for each in (*plan.deletes, *plan.releases)}
    made = {
        one.identity: AppliedObject(
            identity=one.identity,
            resource=one.resource,
            uid="new",
            mark=one.mark,
            is_created=one.present.is_created if one.present else True,
        )
        for one in plan.applies
    }
    return [*made.values(), *(each for each in before if each.identity not in gone and each.identity not in made)]


def applied(plan: ManifestPlan) -> list[str]:
    return [one.mark.object for one in plan.applies]


def test_what_others_need_comes_first_and_goes_last() -> None:
    """Namespaces are applied before their content and deleted after it, whatever the order of documents."""
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n"
    plan = make_plan(found({"/m/a": f"{service}---\n{config_map('c')}---\n{namespace('shop')}"}), [], KINDS)
    assert applied(plan) == ["Namespace shop", "ConfigMap default/c", "Service default/s"]
    after = done(plan, [])
    assert [str(each.identity) for each in make_plan(found({}), after, KINDS).deletes] == list(reversed(applied(plan)))


@pytest.mark.parametrize(
    ("look", "deleted"),
    [
        pytest.param(found({"/m/a": config_map("b")}), True, id="gone from its file"),
        pytest.param(found({"/m/b": config_map("b")}), True, id="file removed"),
        pytest.param(found({}), True, id="all files removed"),
        pytest.param(found({"/m/a": config_map("a")}), False, id="still there"),
        pytest.param(found({"/m/b": config_map("a")}), False, id="in another file"),
        pytest.param(found({"/m/a": "kind: ["}), False, id="file broken"),
        pytest.param(found({"/m/a": widget("a")}), False, id="kind unknown"),
        pytest.param(found({"/m/a": namespace("a, namespace: b")}), False, id="no object"),
        pytest.param(found({}, vanished=True), False, id="folder vanished"),
        pytest.param(found({}, inode=8), False, id="another, empty folder"),
        pytest.param(found({"/m/b": config_map("b")}, inode=8), True, id="another folder, with files"),
        pytest.param(FoundManifests(), False, id="nothing followed"),
        pytest.param(found({}, definite=False), False, id="a file changed while it was first read"),
        pytest.param(FoundManifests((PathView(path="/m", is_definite=True),)), False, id="folder missing at the start"),
        pytest.param(gone((1, INODE)), True, id="single file removed"),
        pytest.param(gone((1, 8)), False, id="single file in another folder"),
    ],
)
def test_object_goes_only_on_evidence(look: FoundManifests[ManifestDocument], deleted: bool) -> None:
    """An object that existed before its file is released instead; one being deleted is left alone."""
    plan = make_plan(look, [object_of("a", "/m/a")], KINDS)
    assert ([each.identity.name for each in plan.deletes], plan.releases) == (["a"] if deleted else [], ())
    adopted = make_plan(look, [object_of("a", "/m/a", created=False)], KINDS)
    assert ([each.identity.name for each in adopted.releases], adopted.deletes) == (["a"] if deleted else [], ())
    ending = make_plan(look, [object_of("a", "/m/a", ending=True)], KINDS)
    assert (ending.deletes, ending.releases) == ((), ())


def test_object_that_is_going_is_waited_for() -> None:
    """A change applied to an object being deleted would be lost with it."""
    look = found({"/m/a": config_map("a")})
    (one,) = make_plan(look, [], KINDS).applies
    going = AppliedObject(
        identity=one.identity, resource=CONFIG_MAPS, uid="1", mark=one.mark, is_created=True, is_ending=True
    )
    plan = make_plan(look, [going], KINDS)
    assert (plan.applies, [each.identity for each in plan.ending]) == ((), [one.identity])


def test_document_is_applied_again_when_anything_about_it_changed() -> None:
    """Its content, file or folder counts; layout and key order do not."""
    (one,) = make_plan(found({"/m/a": config_map("a")}), [], KINDS).applies
    after = done(ManifestPlan(applies=(one,)), [])
    same = "# hello\nkind: ConfigMap\ndata: {v: '1'}\napiVersion: v1\nmetadata:\n  name: a\n"
    assert make_plan(found({"/m/a": same}), after, KINDS) == ManifestPlan()
    for look in (
        found({"/m/a": config_map("a", "2")}),
        found({"/m/b": config_map("a")}),
        found({"/m/a": config_map("a")}, inode=8),
    ):
        assert applied(make_plan(look, after, KINDS)) == ["ConfigMap default/a"]


def test_namespace_left_out_is_the_default_one() -> None:
    """Both documents are the same object, and the first one wins."""
    text = f"{config_map('a')}---\n{config_map('a', namespace='default')}"
    plan = make_plan(found({"/m/a": text}), [], KINDS)
    assert len(plan.applies) == 1
    assert plan.problems == {"/m/a": "ConfigMap default/a is defined more than once here: the first counts"}


_DOCUMENTS = st.builds(config_map, st.sampled_from("abc"), st.sampled_from("12")) | st.sampled_from(
    [namespace("shop"), widget("w"), "kind: [\n", "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: x}\n"]
)
_FILES = st.dictionaries(
    st.sampled_from(["/m/x", "/m/y"]), st.lists(_DOCUMENTS, min_size=1, max_size=3).map("---\n".join), max_size=2
)
_LOOKS = st.builds(
    found, _FILES, inode=st.sampled_from([INODE, INODE, 8]), vanished=st.sampled_from([False, False, True])
)


@settings(max_examples=80, deadline=None)
@given(looks=st.lists(_LOOKS, max_size=5))
def test_executed_plan_leaves_nothing_to_do(looks: list[FoundManifests[ManifestDocument]]) -> None:
    """A plan never deletes an object that a file names, or that an unreadable file may name."""
    before = [object_of("old", "/m/x", created=False)]
    for look in looks:
        plan = make_plan(look, before, KINDS)
        named = {wish.name[1::2] for reading in look.files.values() for wish in reading.items}
        for each in (*plan.deletes, *plan.releases):
            assert (each.identity.kind, each.identity.name) not in named
            assert not look.files.get(each.mark.file, FileReading()).problem
            assert each.mark.file in look.files or not look.views[0].has_vanished
        before = done(plan, before)
        again = make_plan(look, before, KINDS)
        assert (again.applies, again.deletes, again.releases) == ((), (), ())
        assert len({each.identity for each in before}) == len(before)
