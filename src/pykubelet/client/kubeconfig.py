"""Kubeconfig files as values: decode one, merge several, choose a context. No I/O.

The first file that names something wins; a relative path is relative to its file.

Upstream: staging/src/k8s.io/client-go/tools/clientcmd/loader.go, staging/src/k8s.io/client-go/tools/clientcmd/merge.go,
staging/src/k8s.io/client-go/tools/clientcmd/validation.go,
staging/src/k8s.io/client-go/tools/clientcmd/api/v1/types.go,
staging/src/k8s.io/client-go/tools/clientcmd/api/v1/defaults.go
"""

import os.path
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from pykubelet.api import serializer
from pykubelet.client.exec_plugin import API_VERSIONS

N = TypeVar("N", "NamedCluster", "NamedAuthInfo", "NamedContext")


class KubeconfigError(ValueError):
    """A kubeconfig cannot be used; the message names file and field, never a secret."""


class NamedExtension(msgspec.Struct, frozen=True):
    name: str = ""
    extension: Any = None


class Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    """An API server and how to verify it."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: tuple[NamedExtension, ...] = ()


class ExecEnvVar(msgspec.Struct, frozen=True):
    name: str = ""
    value: str = ""

    def __repr__(self) -> str:
        return serializer.redacted(self, "value")


class ExecConfig(msgspec.Struct, frozen=True, rename="camel"):
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[ExecEnvVar, ...] = ()
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""

    def __repr__(self) -> str:
        return serializer.redacted(self, "args", "env")


class AuthInfo(msgspec.Struct, frozen=True, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    impersonate: str = msgspec.field(default="", name="as")
    auth_provider: Any = None
    exec: ExecConfig | None = None

    def __repr__(self) -> str:
        return serializer.redacted(self, "client_key_data", "token", "password", "auth_provider")


class Context(msgspec.Struct, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class NamedCluster(msgspec.Struct, frozen=True):
    name: str = ""
    cluster: Cluster = Cluster()


class NamedAuthInfo(msgspec.Struct, frozen=True):
    name: str = ""
    user: AuthInfo = AuthInfo()


class NamedContext(msgspec.Struct, frozen=True):
    name: str = ""
    context: Context = Context()


class KubeConfig(msgspec.Struct, frozen=True, rename="kebab"):
    """The content of one kubeconfig file."""

    clusters: tuple[NamedCluster, ...] = ()
    users: tuple[NamedAuthInfo, ...] = ()
    contexts: tuple[NamedContext, ...] = ()
    current_context: str = ""


class ChosenContext(msgspec.Struct, frozen=True):
    """A context with its cluster and user; `origins` names the files they come from."""

    name: str
    context: Context
    cluster: Cluster
    user: AuthInfo
    origins: Mapping[str, str]


def read_config(document: Any, path: str) -> KubeConfig:
    """Decode a kubeconfig and make its relative paths absolute; an empty file is an empty kubeconfig."""
    if document is None:
        return KubeConfig()
    if not isinstance(document, dict):
        raise KubeconfigError(f"{path}: not a kubeconfig: expected a map")
    kind, version = document.get("kind") or "Config", document.get("apiVersion") or "v1"
    if (kind, version) != ("Config", "v1"):
        raise KubeconfigError(f"{path}: not a kubeconfig but a {kind} of {version}")
    try:
        config = serializer.from_document(document, KubeConfig)
    except serializer.DecodeError as error:
        raise KubeconfigError(f"{path}: {error}") from error
    folder = os.path.dirname(path)  # noqa: PTH120  text in, text out
    _refuse_duplicates(path, "clusters", config.clusters)
    _refuse_duplicates(path, "users", config.users)
    _refuse_duplicates(path, "contexts", config.contexts)
    return msgspec.structs.replace(
        config,
        clusters=tuple(_resolved_cluster(named, folder) for named in config.clusters),
        users=tuple(_resolved_user(named, folder) for named in config.users),
    )


def _refuse_duplicates(path: str, field: str, named: Iterable[N]) -> None:
    seen: set[str] = set()
    for one in named:
        if one.name in seen:
            raise KubeconfigError(f'{path}: {field}: duplicate name "{one.name}"')
        seen.add(one.name)


def _resolved_cluster(named: NamedCluster, folder: str) -> NamedCluster:
    authority = _resolved(named.cluster.certificate_authority, folder)
    cluster = msgspec.structs.replace(named.cluster, certificate_authority=authority)
    return msgspec.structs.replace(named, cluster=cluster)


def _resolved_user(named: NamedAuthInfo, folder: str) -> NamedAuthInfo:
    user = named.user
    plugin = user.exec
    # A command without a slash is looked up in PATH.
    if plugin and "/" in plugin.command:
        plugin = msgspec.structs.replace(plugin, command=_resolved(plugin.command, folder))
    resolved = msgspec.structs.replace(
        user,
        client_certificate=_resolved(user.client_certificate, folder),
        client_key=_resolved(user.client_key, folder),
        token_file=_resolved(user.token_file, folder),
        exec=plugin,
    )
    return msgspec.structs.replace(named, user=resolved)


def _resolved(path: str, folder: str) -> str:
    return os.path.normpath(os.path.join(folder, path)) if path and not os.path.isabs(path) else path  # noqa: PTH117, PTH118  text in, text out


def choose_context(files: Mapping[str, KubeConfig], context: str = "") -> ChosenContext:
    """Resolve a context (by default the current one) in these files; earlier files win."""
    shown = ", ".join(files)
    name = context or next((config.current_context for config in files.values() if config.current_context), "")
    if not name:
        raise KubeconfigError(f"{shown}: current-context: not set, and no context was given")
    found = _first({path: config.contexts for path, config in files.items()}, name)
    if found is None:
        raise KubeconfigError(f'{shown}: contexts: context "{name}" does not exist')
    chosen, origin = found[0].context, f'{found[1]}: contexts "{name}"'
    cluster = _first({path: config.clusters for path, config in files.items()}, chosen.cluster)
    if cluster is None:
        raise KubeconfigError(f'{origin}: cluster "{chosen.cluster}" does not exist')
    user = _first({path: config.users for path, config in files.items()}, chosen.user)
    if user is None and chosen.user:
        raise KubeconfigError(f'{origin}: user "{chosen.user}" does not exist')
    origins = {
        "cluster": f'{cluster[1]}: clusters "{chosen.cluster}"',
        "user": f'{user[1]}: users "{chosen.user}"' if user else "no user",
    }
    result = ChosenContext(name, chosen, cluster[0].cluster, user[0].user if user else AuthInfo(), origins)
    _check_cluster(result.cluster, origins["cluster"])
    _check_user(result.user, origins["user"])
    return result


def _first(named: Mapping[str, Iterable[N]], name: str) -> tuple[N, str] | None:
    return next(((one, path) for path, several in named.items() for one in several if one.name == name), None)


def _check_cluster(cluster: Cluster, where: str) -> None:
    if not cluster.server:
        raise KubeconfigError(f"{where}: server: it is missing")
    try:
        server = urlsplit(cluster.server)
        is_usable = server.scheme in {"http", "https"} and bool(server.hostname) and server.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise KubeconfigError(f"{where}: server: it is no http or https URL")
    if server.username is not None:
        raise KubeconfigError(f"{where}: server: a user in the URL is not supported")
    if cluster.proxy_url:
        raise KubeconfigError(f"{where}: proxy-url: proxies are not supported")
    if cluster.certificate_authority and cluster.certificate_authority_data:
        raise KubeconfigError(f"{where}: certificate-authority-data and certificate-authority are both specified")
    if cluster.insecure_skip_tls_verify and (cluster.certificate_authority or cluster.certificate_authority_data):
        raise KubeconfigError(
            f"{where}: insecure-skip-tls-verify: specifying a root certificates file with the insecure flag is not allowed"
        )


def _check_user(user: AuthInfo, where: str) -> None:
    if user.client_certificate and user.client_certificate_data:
        raise KubeconfigError(f"{where}: client-certificate-data and client-certificate are both specified")
    if user.client_key and user.client_key_data:
        raise KubeconfigError(f"{where}: client-key-data and client-key are both specified")
    has_certificate = bool(user.client_certificate or user.client_certificate_data)
    if has_certificate and not (user.client_key or user.client_key_data):
        raise KubeconfigError(f"{where}: client-key-data or client-key must be specified to use the client certificate")
    if user.token and (user.username or user.password):
        raise KubeconfigError(f"{where}: token and username/password: only one of them is allowed")
    if user.auth_provider is not None:
        raise KubeconfigError(f"{where}: auth-provider: Kubernetes 1.26 removed it; use an exec plugin")
    if user.impersonate:
        raise KubeconfigError(f"{where}: as: acting as another user is not supported")
    if user.exec:
        _check_exec(user.exec, where)


def _check_exec(plugin: ExecConfig, where: str) -> None:
    if not plugin.command:
        raise KubeconfigError(f"{where}: exec.command: it is missing")
    if plugin.api_version not in API_VERSIONS:
        raise KubeconfigError(f"{where}: exec.apiVersion: {plugin.api_version!r} is none of {', '.join(API_VERSIONS)}")
    if not all(variable.name for variable in plugin.env):
        raise KubeconfigError(f"{where}: exec.env: a variable has no name")
    # v1beta1 defaults to IfAvailable. Plugins never get a terminal here.
    mode = plugin.interactive_mode or ("IfAvailable" if plugin.api_version.endswith("/v1beta1") else "")
    if not mode:
        raise KubeconfigError(f"{where}: exec.interactiveMode: it must be specified")
    if mode == "Always":
        raise KubeconfigError(f"{where}: exec.interactiveMode: Always: standard input is unavailable to plugins here")
    if mode not in {"Never", "IfAvailable"}:
        raise KubeconfigError(f"{where}: exec.interactiveMode: {mode!r} is invalid")
