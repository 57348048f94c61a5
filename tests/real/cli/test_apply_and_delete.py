"""`pykubelet apply` and `delete` against a real server: effects, output and exit codes."""

import json
from pathlib import Path

import pytest

from cli_lab import Sides

pytestmark = pytest.mark.timeout(120)
MAP = """apiVersion: v1
kind: ConfigMap
metadata: {{name: {name}}}
data: {{a: "{value}"}}
"""
SET = """apiVersion: apps/v1
kind: Deployment
metadata: {name: contested}
spec:
  replicas: 0
  selector: {matchLabels: {app: contested}}
  template:
    metadata: {labels: {app: contested}}
    spec:
      containers:
      - name: main
        image: example/web:1
"""
KIND = """apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: example.com/v1
kind: Thing
metadata: {name: first}
"""


def test_apply_creates_configures_and_leaves_alone(sides: Sides, tmp_path: Path) -> None:
    """A dry run changes nothing; the field manager is `pykubelet`."""
    file = tmp_path / "map.yaml"
    file.write_text(MAP.format(name="applied", value="1"))
    apply = ("apply", "-f", str(file))
    assert sides.pykubelet(*apply, "--dry-run=server") == "configmap/applied created (server dry run)\n"
    assert sides.pykubelet(*apply) == "configmap/applied created\n"
    assert sides.pykubelet(*apply) == "configmap/applied unchanged\n"
    file.write_text(MAP.format(name="applied", value="2"))
    assert sides.pykubelet(*apply, "--dry-run=server") == "configmap/applied configured (server dry run)\n"
    assert sides.kubectl.json("get", "cm", "applied")["data"] == {"a": "1"}
    assert sides.pykubelet(*apply) == "configmap/applied configured\n"
    owner = sides.kubectl.json("get", "cm", "applied", "--show-managed-fields")["metadata"]["managedFields"][0]
    assert (owner["manager"], owner["operation"]) == ("pykubelet", "Apply")


def test_apply_takes_folders_and_standard_input(sides: Sides, tmp_path: Path) -> None:
    """Subfolders are read only with -R; a missing path is an error."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.yaml").write_text(MAP.format(name="of-a-folder", value="1"))
    (tmp_path / "deep" / "b.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "of-deep"}})
    )
    (tmp_path / "notes.txt").write_text("not a manifest")
    given = MAP.format(name="given", value="1")
    said = sides.pykubelet("apply", "-f", str(tmp_path), "-f", "-", text=given)
    assert said == "configmap/of-a-folder created\nconfigmap/given created\n"
    said = sides.pykubelet("apply", "-R", "-f", str(tmp_path))
    assert said == "configmap/of-a-folder unchanged\nconfigmap/of-deep created\n"
    assert "No such file" in sides.pykubelet.fails("apply", "-f", str(tmp_path / "none"))


def test_apply_continues_after_an_invalid_document(sides: Sides, tmp_path: Path) -> None:
    """Each error, found locally or by the server, has file, line and field; the exit code is 1."""
    file = tmp_path / "all.yaml"
    good = MAP.format(name="good", value="1")
    misspelt = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: misspelt}\ndota: {a: b}\n"
    wrong = SET.replace("labels: {app: contested}", "labels: {app: other}").replace("contested}\n", "wrong}\n", 1)
    unknown = "apiVersion: example.com/v9\nkind: Nothing\nmetadata: {name: a}\n"
    nameless = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\n"
    elsewhere = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: kube-public}\n"
    documents = (misspelt, wrong, unknown, nameless, elsewhere, good)
    file.write_text("---\n".join(documents))
    done = sides.pykubelet.run("apply", "-n", "default", "-f", str(file), code=1)
    assert done.stdout == "configmap/good created\n"
    for place, words in (
        ("4:1: dota", "unknown field"),
        ("13:24: spec.template.metadata.labels", "does not match"),
        ("20:7: kind", 'no kind "Nothing"'),
        ("25:11: metadata.name", "needs a name"),
        ("29:32: metadata.namespace", "not the namespace"),
    ):
        assert any(f"{file}:{place}" in line and words in line for line in done.stderr.splitlines()), done.stderr


def test_conflict_names_the_owner_of_a_field_and_can_be_forced(sides: Sides, tmp_path: Path) -> None:
    """The error has the file, line and field, and suggests --force-conflicts."""
    sides.kubectl("apply", "--server-side", "--field-manager=somebody", "-f", "-", text=SET)
    file = tmp_path / "set.yaml"
    file.write_text(SET.replace("web:1", "web:2"))
    told = sides.pykubelet.fails("apply", "-f", str(file))
    assert f'{file}:12:16: spec.template.spec.containers[0].image: another manager owns this field: "somebody"' in told
    assert "--force-conflicts" in told
    forced = sides.pykubelet("apply", "-f", str(file), "--force-conflicts")
    assert forced == "deployment.apps/contested configured\n"


def test_kind_and_its_objects_can_be_in_one_file(sides: Sides) -> None:
    """`apply` waits for the new kind to be served."""
    said = sides.pykubelet("apply", "-f", "-", text=KIND)
    assert (
        said
        == "customresourcedefinition.apiextensions.k8s.io/things.example.com created\nthing.example.com/first created\n"
    )
    assert sides.pykubelet("get", "things", "-o", "name") == "thing.example.com/first\n"
    # Deleting the CRD deletes its objects, so the rest of the file may be gone already.
    assert "things.example.com" in sides.pykubelet("delete", "-f", "-", "--ignore-not-found", text=KIND)


def test_delete_ends_objects_by_name_and_waits(sides: Sides) -> None:
    """A deleted object is gone when the command returns; --ignore-not-found accepts a missing one."""
    sides.kubectl("create", "configmap", "one")
    sides.kubectl("create", "configmap", "two")
    said = sides.pykubelet("delete", "cm/one", "configmap/two")
    assert said == 'configmap "one" deleted from default namespace\nconfigmap "two" deleted from default namespace\n'
    told = sides.pykubelet.fails("delete", "cm", "one")
    assert told == 'Error from server (NotFound): configmaps "one" not found\n'
    assert sides.pykubelet("delete", "cm", "one", "--ignore-not-found") == ""


def test_delete_ends_objects_by_labels(sides: Sides) -> None:
    """Other objects stay, and a dry run deletes none."""
    for name, colour in (("red-1", "red"), ("red-2", "red"), ("blue-1", "blue")):
        sides.kubectl("create", "configmap", name)
        sides.kubectl("label", "configmap", name, f"colour={colour}")
    chosen = ("delete", "cm", "-l", "colour=red", "-o", "name")
    assert sides.pykubelet(*chosen, "--dry-run=server") == "configmap/red-1\nconfigmap/red-2\n"
    assert sides.pykubelet(*chosen) == "configmap/red-1\nconfigmap/red-2\n"
    assert sides.pykubelet.run(*chosen).stderr == "No resources found\n"
    assert sides.pykubelet("get", "cm", "-l", "colour", "-o", "name") == "configmap/blue-1\n"
    assert sides.pykubelet("delete", "cm", "--all", "-l", "colour", "-o", "name") == "configmap/blue-1\n"


def test_delete_waits_until_its_timeout(sides: Sides) -> None:
    """An object held by a finalizer gives an error at the timeout; --no-wait returns at once."""
    held = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    sides.kubectl("create", "-f", "-", text=json.dumps(held))
    assert 'configmap "held" deleted' in sides.pykubelet("delete", "cm", "held", "--no-wait")
    told = sides.pykubelet.fails("delete", "cm", "held", "--timeout=1s")
    assert told == "error: timed out waiting for the condition on configmaps/held\n"
    with sides.pykubelet.start("delete", "cm", "held", "--timeout=60s") as waiting:
        assert waiting.stdout is not None
        assert 'configmap "held" deleted' in waiting.stdout.readline()
        sides.kubectl("patch", "cm", "held", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
        assert waiting.wait(30) == 0


def test_delete_with_force_warns(sides: Sides) -> None:
    """The warning is that the container may still be running."""
    pod = {"metadata": {"name": "forced"}, "spec": {"containers": [{"name": "main", "image": "example/web:1"}]}}
    sides.kubectl("create", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "Pod", **pod}))
    done = sides.pykubelet.run("delete", "pod", "forced", "--force")
    assert done.stdout == 'pod "forced" force deleted from default namespace\n'
    assert done.stderr.startswith("Warning: Immediate deletion does not wait")


@pytest.mark.parametrize(
    "words", [(), ("cm",), ("cm", "a", "--all"), ("cm", "a", "-f", "x.yaml"), ("cm", "a", "--cascade=maybe")]
)
def test_delete_with_missing_or_conflicting_arguments_is_a_usage_error(sides: Sides, words: tuple[str, ...]) -> None:
    """The exit code is 2."""
    assert "Error: " in sides.pykubelet.fails("delete", *words, code=2)


def test_delete_cascade_decides_what_happens_to_dependents(sides: Sides) -> None:
    """`orphan` keeps the ReplicaSet, `foreground` deletes the pods first."""
    text = SET.replace("contested", "owner").replace("replicas: 0", "replicas: 1")
    sides.pykubelet("apply", "-f", "-", text=text)
    sides.kubectl("rollout", "status", "--timeout=30s", "deployment/owner")
    sides.pykubelet("delete", "deploy", "owner", "--cascade=orphan")
    assert len(sides.pykubelet("get", "rs", "-l", "app=owner", "-o", "name").splitlines()) == 1
    sides.pykubelet("delete", "rs", "-l", "app=owner", "--cascade=foreground", "--timeout=30s")
    assert sides.pykubelet("get", "pods", "-l", "app=owner", "-o", "name") == ""


def test_delete_shows_a_person_what_it_waits_for(sides: Sides) -> None:
    """A terminal shows the remaining objects in a line that is erased at the end."""
    held = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "slow", "finalizers": ["example.com/hold"]}}
    sides.kubectl("create", "-f", "-", text=json.dumps(held))
    with sides.pykubelet.terminal("delete", "cm", "slow") as screen:
        screen.until('configmap "slow" deleted from default namespace')
        screen.until("waiting for 1 to go: configmap/slow")
        sides.kubectl("patch", "cm", "slow", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
        screen.until("\r\x1b[2K")
        assert screen.process.wait(30) == 0
