"""kubeconfig files are merged, resolved and validated, and their secrets never printed."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api import serializer
from pykubelet.client.clientcmd import default_paths, in_cluster, load_kubeconfig
from pykubelet.client.exec_plugin import ExecCredentials, exec_info
from pykubelet.client.kubeconfig import KubeConfig, KubeconfigError, NamedAuthInfo, choose_context, read_config
from pykubelet.client.transport import RestConfig
from pykubelet.testing.virtual_time import ManualClock

EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "login", "interactiveMode": "Never"}


def document(*, cluster: Any = None, user: Any = None, name: str = "a", **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster or {"server": "https://one.example"}}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
        **fields,
    }


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    def written(config: dict[str, Any], path: str = "config") -> str:
        file = tmp_path / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(config))
        return str(file)

    return written


def load(*paths: str, context: str = "") -> RestConfig:
    return load_kubeconfig(paths, context=context, environment={}, clock=ManualClock())


async def test_kubeconfig_gives_server_trust_namespace_and_token(write: Callable[..., str]) -> None:
    cluster = {"server": "https://one.example/k8s?x#y", "tls-server-name": "api", "insecure-skip-tls-verify": True}
    config = document(cluster=cluster, user={"token": "t0ken"})
    config["contexts"][0]["context"]["namespace"] = "web"
    access = load(write(config))
    assert access.server == "https://one.example/k8s"
    assert (access.trust.server_name, access.trust.insecure, access.namespace) == ("api", True, "web")
    assert (await access.credentials.current()).authorization == "Bearer t0ken"


async def test_kubeconfig_reads_yaml_as_kubectl_writes_it(tmp_path: Path) -> None:
    """With null lists and inline certificate data."""
    ca = base64.b64encode(b"PEM").decode()
    text = f"""
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {ca}
    server: https://127.0.0.1:6443
  name: local
contexts:
- context: {{cluster: local, user: ""}}
  name: local
current-context: local
kind: Config
preferences: {{}}
users: null
"""
    (tmp_path / "config").write_text(text)
    access = load(str(tmp_path / "config"))
    assert access.trust.ca is not None
    assert access.trust.ca.data == b"PEM"
    assert (await access.credentials.current()).authorization == ""


async def test_kubeconfig_sends_no_credentials_over_plain_http(write: Callable[..., str]) -> None:
    access = load(write(document(cluster={"server": "http://one.example"}, user={"token": "t0ken"})))
    assert (await access.credentials.current()).authorization == ""


async def test_kubeconfig_of_several_files_takes_the_first_of_each_name(write: Callable[..., str]) -> None:
    """A cluster and its user may come from different files; missing files are skipped."""
    first = write(document(name="a", clusters=[], user={"token": "first"}), "1")
    second = write(document(name="a", user={"token": "second"}), "2")
    third = write(document(name="b", cluster={"server": "https://three.example"}), "3")
    access = load("/nowhere", first, second, third)
    assert access.server == "https://one.example"
    assert (await access.credentials.current()).authorization == "Bearer first"
    assert load(first, second, third, context="b").server == "https://three.example"


async def test_kubeconfig_paths_are_relative_to_their_own_file(write: Callable[..., str], tmp_path: Path) -> None:
    """Not to the working directory, and not to the first file."""
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "token").write_text("from-file\n")
    (tmp_path / "two" / "ca.pem").write_text("PEM")
    one = write(document(users=[], clusters=[]), "one/config")
    two = write(
        document(user={"tokenFile": "token"}, cluster={"server": "https://x", "certificate-authority": "./ca.pem"}),
        "two/config",
    )
    access = load(one, two)
    assert access.trust.ca is not None
    assert access.trust.ca.path == str(tmp_path / "two" / "ca.pem")
    assert (await access.credentials.current()).authorization == "Bearer from-file"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        pytest.param(document(**{"current-context": ""}), "current-context: not set", id="no context"),
        pytest.param(document(**{"current-context": "z"}), 'context "z" does not exist', id="unknown context"),
        pytest.param(document(clusters=[]), 'cluster "a" does not exist', id="unknown cluster"),
        pytest.param(document(users=[]), 'user "a" does not exist', id="unknown user"),
        pytest.param(document(kind="Pod"), "not a kubeconfig but a Pod of v1", id="other kind"),
        pytest.param(document(clusters=7), "Expected `array`, got `int` - at `$.clusters`", id="wrong type"),
        pytest.param(document(cluster={"server": 7}), "got `int` - at `$.clusters[0].cluster.server`", id="field"),
        pytest.param(document(users=[{"name": "a"}, {"name": "a"}]), 'users: duplicate name "a"', id="duplicate"),
        pytest.param(document(cluster={"insecure-skip-tls-verify": True}), "server: it is missing", id="no server"),
        pytest.param(document(cluster={"server": "one:6443"}), "no http or https URL", id="no scheme"),
        pytest.param(document(cluster={"server": "https://[::1"}), "no http or https URL", id="no URL"),
        pytest.param(document(cluster={"server": "https://:6443"}), "no http or https URL", id="no host"),
        pytest.param(document(cluster={"server": "https://me:s3cret@one"}), "a user in the URL", id="user in URL"),
        pytest.param(
            document(cluster={"server": "https://x", "proxy-url": "p"}), "proxies are not supported", id="proxy"
        ),
        pytest.param(
            document(cluster={"server": "https://x", "certificate-authority": "/nowhere"}),
            'clusters "a": certificate-authority: unable to read /nowhere: No such file',
            id="no CA file",
        ),
        pytest.param(
            document(cluster={"server": "https://x", "certificate-authority": "a", "certificate-authority-data": "b"}),
            "are both specified",
            id="two CAs",
        ),
        pytest.param(
            document(
                cluster={"server": "https://x", "certificate-authority-data": "b", "insecure-skip-tls-verify": True}
            ),
            "with the insecure flag is not allowed",
            id="CA and insecure",
        ),
        pytest.param(
            document(cluster={"server": "https://x", "certificate-authority-data": "?"}), "not base64", id="bad CA"
        ),
        pytest.param(
            document(user={"tokenFile": "/nowhere"}), 'users "a": tokenFile: unable to read', id="no token file"
        ),
        pytest.param(document(user={"token": "s3cret", "username": "u"}), "only one of them", id="two methods"),
        pytest.param(document(user={"client-certificate-data": "eA=="}), "client-key must be specified", id="no key"),
        pytest.param(
            document(user={"client-certificate-data": "eA==", "client-key-data": "s3cret!"}),
            'users "a": client-key-data: it is not base64',
            id="bad key",
        ),
        pytest.param(
            document(user={"client-certificate-data": "eA==", "client-certificate": "x"}),
            "both specified",
            id="two certs",
        ),
        pytest.param(document(user={"client-key-data": "s3cret", "client-key": "x"}), "both specified", id="two keys"),
        pytest.param(document(user={"auth-provider": {"name": "gcp"}}), "auth-provider", id="auth provider"),
        pytest.param(document(user={"as": "admin"}), "as: acting as another user", id="impersonation"),
        pytest.param(document(user={"exec": {**EXEC, "command": ""}}), "exec.command", id="no command"),
        pytest.param(document(user={"exec": {**EXEC, "apiVersion": "v9"}}), "exec.apiVersion: 'v9'", id="exec version"),
        pytest.param(document(user={"exec": {**EXEC, "env": [{"value": "s3cret"}]}}), "exec.env", id="exec env"),
        pytest.param(
            document(user={"exec": {**EXEC, "interactiveMode": ""}}), "interactiveMode: it must", id="exec mode missing"
        ),
        pytest.param(
            document(user={"exec": {**EXEC, "interactiveMode": "Always"}}),
            "input is unavailable",
            id="exec mode always",
        ),
        pytest.param(
            document(user={"exec": {**EXEC, "interactiveMode": "x"}}), "'x' is invalid", id="exec mode unknown"
        ),
    ],
)
def test_kubeconfig_error_names_file_and_field_but_no_secret(
    config: dict[str, Any], message: str, write: Callable[..., str]
) -> None:
    path = write(config)
    with pytest.raises(KubeconfigError) as caught:
        load(path)
    assert message in str(caught.value)
    assert path in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("text", ["a: [", "- 1", "\x00"], ids=["yaml", "list", "binary"])
def test_malformed_kubeconfig_is_rejected_with_its_path(text: str, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(KubeconfigError, match=str(tmp_path / "config")):
        load(str(tmp_path / "config"))


def test_unreadable_kubeconfig_is_rejected_with_its_path(tmp_path: Path) -> None:
    """The path is a folder, for example."""
    with pytest.raises(KubeconfigError, match=f"{tmp_path}: cannot be read: Is a directory"):
        load(str(tmp_path))


def test_empty_kubeconfig_file_is_accepted(write: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    assert load(str(tmp_path / "empty"), write(document())).server == "https://one.example"


def test_kubeconfig_needs_one_file_that_exists() -> None:
    with pytest.raises(KubeconfigError, match="no kubeconfig found: /nowhere, /nor-here"):
        load("/nowhere", "/nor-here")


def test_default_paths_follow_the_environment() -> None:
    """Duplicate and empty entries of KUBECONFIG are dropped."""
    assert default_paths({"KUBECONFIG": "/a::/b:/a"}) == ("/a", "/b")
    assert default_paths({"HOME": "/home/me"}) == ("/home/me/.kube/config",)


def test_exec_plugin_is_used_only_without_other_credentials(write: Callable[..., str]) -> None:
    assert isinstance(load(write(document(user={"exec": EXEC}))).credentials, ExecCredentials)
    assert not isinstance(load(write(document(user={"exec": EXEC, "token": "t"}))).credentials, ExecCredentials)


def test_exec_plugin_gets_cluster_info_when_configured(write: Callable[..., str], tmp_path: Path) -> None:
    """The cluster's extension becomes the config, and a CA file is passed as data."""
    (tmp_path / "ca.pem").write_text("PEM")
    cluster = {
        "server": "https://x",
        "certificate-authority": "ca.pem",
        "tls-server-name": "api",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "me"}}],
    }
    plugin = {**EXEC, "command": "bin/login", "provideClusterInfo": True, "env": [{"name": "K", "value": "s3cret"}]}
    credentials = load(write(document(cluster=cluster, user={"exec": plugin}))).credentials
    assert isinstance(credentials, ExecCredentials)
    found = credentials._plugin
    assert found.command == str(tmp_path / "bin" / "login")
    assert found.env == (("K", "s3cret"),)
    assert "s3cret" not in repr(found)
    assert json.loads(exec_info(found)) == {
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1",
        "spec": {
            "cluster": {
                "server": "https://x",
                "tls-server-name": "api",
                "certificate-authority-data": base64.b64encode(b"PEM").decode(),
                "config": {"audience": "me"},
            },
            "interactive": False,
        },
    }


def test_exec_plugin_gets_cluster_info_without_a_ca(write: Callable[..., str]) -> None:
    cluster = {"server": "https://x", "insecure-skip-tls-verify": True, "disable-compression": True}
    user = {"exec": {**EXEC, "provideClusterInfo": True}}
    credentials = load(write(document(cluster=cluster, user=user))).credentials
    assert isinstance(credentials, ExecCredentials)
    assert credentials._plugin.cluster == {**cluster, "config": None}


def test_old_plugins_need_no_interactive_mode(write: Callable[..., str]) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "login"}
    assert isinstance(load(write(document(user={"exec": plugin}))).credentials, ExecCredentials)


def test_reprs_show_no_secret(write: Callable[..., str]) -> None:
    """Neither for values of the file nor for what is derived from them."""
    plugin = {**EXEC, "args": ["s3cret"], "env": [{"name": "a", "value": "s3cret"}]}
    user = {"token": "s3cret", "password": "s3cret", "client-key-data": "s3cret", "exec": plugin}
    named = serializer.from_document({"name": "a", "user": user}, NamedAuthInfo)
    assert "s3cret" not in repr(named)
    assert named.user.exec is not None
    assert "s3cret" not in repr(named.user.exec.env)
    assert "s3cret" not in repr(load(write(document(user={"token": "s3cret"}))))


async def test_in_cluster_uses_the_service_account(tmp_path: Path) -> None:
    """Host and port come from the environment, with IPv6 addresses in brackets."""
    for name, text in {"token": "tok\n", "ca.crt": "PEM", "namespace": "mine\n"}.items():
        (tmp_path / name).write_text(text)
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    access = in_cluster(environment=environment, clock=ManualClock(), folder=tmp_path)
    assert (access.server, access.namespace) == ("https://[fd00::1]:443", "mine")
    assert (await access.credentials.current()).authorization == "Bearer tok"


def test_in_cluster_is_refused_outside_a_pod(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="KUBERNETES_SERVICE_HOST"):
        in_cluster(environment={}, clock=ManualClock(), folder=tmp_path)
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(KubeconfigError, match="service account token: unable to read"):
        in_cluster(environment=environment, clock=ManualClock(), folder=tmp_path)


NAMES = st.lists(st.sampled_from(["a", "b", "c"]), unique=True)


@settings(max_examples=100, deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=4), st.sampled_from(["a", "b", "c"]))
def test_merge_takes_each_name_from_the_first_file_that_has_it(files: list[list[str]], wanted: str) -> None:
    """For any set of files."""
    configs: dict[str, KubeConfig] = {}
    for number, names in enumerate(files):
        clusters = [{"name": name, "cluster": {"server": f"https://{number}"}} for name in names]
        contexts = [{"name": name, "context": {"cluster": name}} for name in names]
        path = f"/{number}/config"
        configs[path] = read_config({"clusters": clusters, "contexts": contexts}, path)
    first = next((number for number, names in enumerate(files) if wanted in names), None)
    if first is None:
        with pytest.raises(KubeconfigError):
            choose_context(configs, wanted)
    else:
        assert choose_context(configs, wanted).cluster.server == f"https://{first}"
