"""`pykubelet check` prints every problem with its place; the exit code is 1 if there is one."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from pykubelet.cli.main import main

GOOD = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: c
    image: nginx
"""


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(GOOD.replace("image", "imagee"), ":8:5: spec.containers[0].imagee: unknown field", id="field"),
        pytest.param(GOOD.replace("image: nginx", "image: [1"), ":9:", id="syntax"),
        pytest.param(
            GOOD.replace("name: c\n", "name: C\n"),
            ":7:11: spec.containers[0].name: Invalid value",
            id="a rule of the kind",
        ),
        pytest.param(GOOD.replace("Pod", "Pot"), ":2:7: kind:", id="kind"),
        pytest.param("", ": the manifest contains no object", id="empty"),
        pytest.param(
            f"{GOOD}---\n{GOOD.replace('nginx', '7')}", ":17:12: spec.containers[0].image:", id="second document"
        ),
    ],
)
def test_check_reports_file_line_field_and_reason_of_each_problem(tmp_path: Path, text: str, complaint: str) -> None:
    """Problems of syntax, of fields, and of the validation rules of the kind."""
    path = tmp_path / "pod.yaml"
    path.write_text(text)
    done = CliRunner().invoke(main, ["check", str(path)])
    assert done.exit_code == 1
    assert f"{path}{complaint}" in done.stdout
    assert "found" in done.stderr


def test_check_prints_nothing_for_valid_manifests(tmp_path: Path) -> None:
    """For files, folders and standard input; other files in a folder are skipped."""
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "b.json").write_text('{"apiVersion": "v1", "kind": "List", "items": []}')
    (tmp_path / "notes.txt").write_text("not a manifest")
    done = CliRunner().invoke(main, ["check", str(tmp_path), str(tmp_path / "a.yaml"), "-"], input=GOOD)
    assert (done.exit_code, done.output) == (0, "")


def test_check_accepts_a_headless_service_as_people_write_it() -> None:
    """With clusterIP only: the server fills in the list of addresses."""
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {clusterIP: None, ports: [{port: 80}]}\n"
    done = CliRunner().invoke(main, ["check", "-"], input=service)
    assert (done.exit_code, done.output) == (0, "")


@pytest.mark.parametrize("path", ["examples", "examples/shop", "deploy/controllers.yaml"])
def test_check_accepts_the_manifests_of_this_project(path: str) -> None:
    done = CliRunner().invoke(main, ["check", str(Path(__file__).parents[3] / path)])
    assert (done.exit_code, done.output) == (0, "")


def test_check_reports_paths_without_manifests(tmp_path: Path) -> None:
    """A missing file, and a folder without a manifest."""
    done = CliRunner().invoke(main, ["check", str(tmp_path / "nope.yaml"), str(tmp_path)])
    assert done.exit_code == 1
    assert f"{tmp_path}/nope.yaml: No such file or directory" in done.stdout
    assert "there is no .yaml, .yml or .json file in this folder" in done.stdout


def test_check_needs_a_path() -> None:
    """Exit code 2 stands for invalid arguments."""
    assert CliRunner().invoke(main, ["check"]).exit_code == 2
