"""The default of imagePullPolicy for an image."""

import pytest

from pykubelet.kinds.pod.defaults import default_pull_policy

_DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1", "IfNotPresent"),
        ("user/repo", "Always"),
        ("url:5000/repo", "Always"),
        ("url:5000/repo:tag", "IfNotPresent"),
        ("localhost/x", "Always"),
        ("docker.io/ubuntu", "Always"),
        ("index.docker.io/library/ubuntu:latest", "Always"),
        ("[::1]:5000/x", "Always"),
        (f"nginx@{_DIGEST}", "IfNotPresent"),
        (f"nginx:latest@{_DIGEST}", "Always"),
        (f"nginx:1@{_DIGEST}", "IfNotPresent"),
        ("a__b", "Always"),
        ("a--b/c.d", "Always"),
        ("Example/x", "Always"),
        # The texts from here on are not valid references, so they have no tag.
        ("", "IfNotPresent"),
        ("nginx@sha256:abc", "IfNotPresent"),
        (f"nginx@sha1:{'a' * 40}", "IfNotPresent"),
        (f"nginx:latest@sha256:{'A' * 64}", "IfNotPresent"),
        ("ROOT", "IfNotPresent"),
        ("http://root", "IfNotPresent"),
        ("a" * 64, "IfNotPresent"),
        ("a___b", "IfNotPresent"),
        ("-a", "IfNotPresent"),
        ("nginx:" + "t" * 129, "IfNotPresent"),
        ("x" * 256, "IfNotPresent"),
        (" nginx", "IfNotPresent"),
    ],
)
def test_pull_policy_is_always_only_for_latest(image: str, policy: str) -> None:
    assert default_pull_policy(image) == policy


def test_default_pull_policy_is_fast_for_a_long_text() -> None:
    """The time for a hostile image name is proportional to its length."""
    for text in ("a" * 100_000 + "!", "a-" * 50_000, "a." * 50_000 + "/x:", "A-" * 50_000 + "/"):
        assert default_pull_policy(text) == "IfNotPresent"
