"""`pykubelet describe` prints the same lines as `kubectl describe`, except for ages.

These intended differences are not compared here. Secrets show only the sizes of their values. A variable that takes
its value from a label shows that value. Objects found by a name prefix are not followed by a blank line. Kinds without
a describer of their own, such as service accounts, use the generic form that kubectl uses for custom resources. Keys of
config maps and secrets are sorted; kubectl prints them in random order.
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
    assert sides.difference("describe", *words.split()) == ""


def test_describe_of_a_node_prints_what_kubectl_prints(sides: Sides) -> None:
    """Times are not compared, since a node reports new ones every few seconds."""

    def still(text: str) -> str:
        return re.sub(r"\d\d:\d\d:\d\d", "TIME", timeless(text))

    theirs, ours = (still(side("describe", "node", "node-1")) for side in (sides.kubectl, sides.pykubelet))
    assert ours == theirs


def test_describe_finds_objects_by_the_beginning_of_their_name(sides: Sides) -> None:
    """It tries a prefix when no object has that exact name; no match gives kubectl's error."""
    found = re.findall(r"^Name: +(\S+)$", sides.pykubelet("describe", "pod", "web"), re.MULTILINE)
    assert len(found) == 2
    assert all(name.startswith("web-") for name in found)
    assert sides.difference("describe", "pod", "nobody", code=1) == ""


def test_describe_in_an_empty_namespace_reports_no_resources(sides: Sides) -> None:
    assert sides.difference("describe", "pods", "-n", "kube-public") == ""
