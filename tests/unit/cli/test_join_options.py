"""The options of joining, and of the addresses of a cluster: what does not fit is refused before anything starts."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from pykubelet.cli.node import node
from pykubelet.cli.token import token
from pykubelet.cli.up import up

TOKEN, HASH = "abcdef.0123456789abcdef", f"sha256:{'0' * 64}"
JOIN = ("--join", "https://10.0.0.1:6443")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--token", TOKEN, "--ca-cert-hash", HASH), "--token and --ca-cert-hash need --join"),
        ((*JOIN, "--token", TOKEN), "--token and --ca-cert-hash need each other"),
        ((*JOIN, "--ca-cert-hash", HASH), "--token and --ca-cert-hash need each other"),
        ((*JOIN, "--token", "secret-text", "--ca-cert-hash", HASH), "a bootstrap token has the form abcdef.01"),
        ((*JOIN, "--token", TOKEN, "--ca-cert-hash", "sha256:1"), "'sha256:1' is not of the form sha256:"),
        (("--join", "http://10.0.0.1:6443"), "is not of the form https://ADDRESS:PORT"),
        (("--join", "https://10.0.0.1:port"), "is not of the form https://ADDRESS:PORT"),
        (("--join", "10.0.0.1:6443"), "is not of the form https://ADDRESS:PORT"),
    ],
)
def test_node_refuses_options_that_do_not_fit(options: tuple[str, ...], error: str) -> None:
    refused = CliRunner().invoke(node, list(options))
    assert refused.exit_code == 2
    assert error in " ".join(refused.output.split())
    assert "secret-text" not in refused.output


def test_join_excludes_a_bootstrap_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "boot").touch()
    refused = CliRunner().invoke(node, [*JOIN, "--bootstrap-kubeconfig", str(tmp_path / "boot"), "--kubeconfig", "k"])
    assert refused.exit_code == 2
    assert "are two ways to join" in refused.output


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--bind", "localhost"), "'localhost' is not an IPv4 address"),
        (("--bind", "::"), "'::' is not an IPv4 address"),
        (("--service-cluster-ip-range", "10.0.0.0/8"), "not a range between /12 and /28"),
        (("--service-cluster-ip-range", "10.96.0.0/29"), "not a range between /12 and /28"),
        (("--service-cluster-ip-range", "10.96.0.1/16"), "has host bits set"),
        (("--cluster-cidr", "10.0.0.0/25"), "not a range between /8 and /24"),
        (("--cluster-cidr", "fd00::/48"), "Expected 4 octets"),
        (("--cluster-cidr", "10.96.0.0/16"), "--service-cluster-ip-range and --cluster-cidr overlap"),
        (("--bind", "0.0.0.0", "--pod-cidr", "10.1.0.0/24"), "--pod-cidr is no part of --cluster-cidr"),
        (("--max-pods", "0"), "0 is not in the range x>=1"),
    ],
)
def test_up_refuses_addresses_that_do_not_fit(options: tuple[str, ...], error: str) -> None:
    refused = CliRunner().invoke(up, list(options))
    assert refused.exit_code == 2
    assert error in " ".join(refused.output.split())


def test_token_must_be_valid_for_some_time() -> None:
    refused = CliRunner().invoke(token, ["create", "--ttl", "0s"])
    assert refused.exit_code == 2
    assert "must be valid for some time" in refused.output
