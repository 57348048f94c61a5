"""`pykubelet describe` beside `kubectl describe`: the same lines, ages apart.

Where they differ on purpose, which is not compared here: of a secret only sizes are told; a variable with the value of a label
shows it; sources of a projected volume say `Optional: false` as newer kubectls do; there is no blank line behind objects
that were found by the beginning of their name; kinds without a form of their own here (as service accounts) have the plain
form that kubectl has for custom resources; the keys of config maps and secrets are sorted, which kubectl leaves to chance.
"""

import re

import pytest

from cli_lab import Sides, timeless

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize(
    "words",
    [
        "deploy/web",
        "pods -l app=web",
        "pods -l app=db",
        "pod homeless",
        "rs -l app=web",
        "sts db",
        "ds/agent",
        "job/once",
        "cj nightly",
        "svc web",
        "svc/outside",
        "cm word",
        "secret hidden",
        "ns default",
        "wg round",
        "deploy/web svc/web",
    ],
)
def test_describe_prints_what_kubectl_prints(sides: Sides, words: str) -> None:
    """Line by line."""
    assert sides.difference("describe", *words.split()) == ""


def test_describe_of_a_node_prints_what_kubectl_prints(sides: Sides) -> None:
    """But for times, which a node tells anew every few seconds."""

    def still(text: str) -> str:
        return re.sub(r"\d\d:\d\d:\d\d", "TIME", timeless(text))

    theirs, ours = (still(side("describe", "node", "node-1")) for side in (sides.kubectl, sides.pykubelet))
    assert ours == theirs


def test_describe_finds_objects_by_the_beginning_of_their_name(sides: Sides) -> None:
    """If none has that name; nothing at all is told as kubectl does."""
    found = re.findall(r"^Name: +(\S+)$", sides.pykubelet("describe", "pod", "web"), re.MULTILINE)
    assert len(found) == 2
    assert all(name.startswith("web-") for name in found)
    assert sides.difference("describe", "pod", "nobody", code=1) == ""


def test_describe_of_a_kind_without_pods_is_told(sides: Sides) -> None:
    """Of a namespace where there are none, on standard error."""
    assert sides.difference("describe", "pods", "-n", "kube-public") == ""
