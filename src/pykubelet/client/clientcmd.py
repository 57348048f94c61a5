"""Loads a `RestConfig` from kubeconfig files or from the service account of a pod.

Files are read here, once and blocking, when a program starts. The credentials made here read tokens and certificates
and run plugins later.

Upstream: staging/src/k8s.io/client-go/tools/clientcmd/loader.go,
staging/src/k8s.io/client-go/tools/clientcmd/client_config.go, staging/src/k8s.io/client-go/rest/config.go
"""

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pykubelet.aio.clock import Clock
from pykubelet.api.serializer import Document
from pykubelet.api.yaml.parser import YamlError
from pykubelet.api.yaml.read import read_yaml
from pykubelet.client.exec_plugin import ExecCredentials, ExecPlugin
from pykubelet.client.kubeconfig import (
    AuthInfo,
    ChosenContext,
    ExecConfig,
    KubeConfig,
    KubeconfigError,
    choose_context,
    read_config,
)
from pykubelet.client.transport import (
    ClientCredentials,
    PemFiles,
    PemSource,
    RestConfig,
    ServerTrust,
    TokenFile,
    UserCredentials,
    basic,
    bearer,
)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_EXTENSION = "client.authentication.k8s.io/exec"
"""The name of the cluster extension that plugins receive."""


def default_paths(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The files in KUBECONFIG, or ~/.kube/config."""
    listed = environment.get("KUBECONFIG", "")
    if listed:
        return tuple(dict.fromkeys(path for path in listed.split(os.pathsep) if path))
    return (str(Path(environment.get("HOME", "")) / ".kube" / "config"),)


def load_kubeconfig(
    paths: Sequence[str], *, context: str = "", environment: Mapping[str, str], clock: Clock
) -> RestConfig:
    """The configuration of a context (by default the current one). Missing files are skipped, but one must exist.

    KubeconfigError names the file and field that cannot be used. Plugins run with `environment`.
    """
    files: dict[str, KubeConfig] = {}
    for path in paths:
        absolute = os.path.abspath(path)  # noqa: PTH100  links are kept: relative paths are relative to the link's folder
        try:
            data = Path(absolute).read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise KubeconfigError(f"{path}: cannot be read: {error.strerror}") from error
        try:
            files[absolute] = read_config(read_yaml(data), absolute)
        except YamlError as error:
            raise KubeconfigError(f"{path}: {error}") from error
    if not files:
        raise KubeconfigError(f"no kubeconfig found: {', '.join(paths)}")
    return _rest_config(choose_context(files, context), environment, clock)


def in_cluster(*, environment: Mapping[str, str], clock: Clock, folder: Path = SERVICE_ACCOUNT) -> RestConfig:
    """The configuration of a pod's service account; KubeconfigError outside a pod."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise KubeconfigError(
            "unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined"
        )
    token, authority = folder / "token", folder / "ca.crt"
    _require_file(str(token), "service account token")
    _require_file(str(authority), "service account ca.crt")
    namespace = folder / "namespace"
    return RestConfig(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        credentials=UserCredentials(token_file=TokenFile(str(token), setting="service account token", clock=clock)),
        trust=ServerTrust(ca=PemSource("service account ca.crt", path=str(authority))),
        namespace=namespace.read_text().strip() if namespace.is_file() else "default",
    )


def _rest_config(chosen: ChosenContext, environment: Mapping[str, str], clock: Clock) -> RestConfig:
    cluster, where = chosen.cluster, chosen.origins["cluster"]
    authority = _pem(where, "certificate-authority", cluster.certificate_authority, cluster.certificate_authority_data)
    # Credentials are never sent over plain HTTP.
    is_secure = cluster.server.startswith("https://")
    return RestConfig(
        server=cluster.server.partition("?")[0].partition("#")[0],
        credentials=_credentials(chosen, authority, environment, clock) if is_secure else UserCredentials(),
        trust=ServerTrust(authority, cluster.tls_server_name, cluster.insecure_skip_tls_verify),
        namespace=chosen.context.namespace or "default",
    )


def _credentials(
    chosen: ChosenContext, authority: PemSource | None, environment: Mapping[str, str], clock: Clock
) -> ClientCredentials:
    user, where = chosen.user, chosen.origins["user"]
    certificate = _pem(where, "client-certificate", user.client_certificate, user.client_certificate_data)
    key = _pem(where, "client-key", user.client_key, user.client_key_data)
    authorization = _authorization(user)
    # Inline credentials take precedence over the plugin.
    if user.exec and not (certificate or authorization or user.token_file):
        return ExecCredentials(_plugin(user.exec, chosen, authority), environment=environment, clock=clock)
    token_file = None
    if user.token_file:
        _require_file(user.token_file, f"{where}: tokenFile")
        token_file = TokenFile(user.token_file, setting=f"{where}: tokenFile", clock=clock, fallback=user.token)
    pair = PemFiles(certificate, key, clock=clock) if certificate and key else None
    return UserCredentials(authorization=authorization, token_file=token_file, pair=pair)


def _authorization(user: AuthInfo) -> str:
    if user.token:
        return bearer(user.token)
    return basic(user.username, user.password) if user.username or user.password else ""


def _plugin(plugin: ExecConfig, chosen: ChosenContext, authority: PemSource | None) -> ExecPlugin:
    return ExecPlugin(
        command=plugin.command,
        args=plugin.args,
        env=tuple((variable.name, variable.value) for variable in plugin.env),
        api_version=plugin.api_version,
        install_hint="".join(
            character for character in plugin.install_hint if character.isprintable() or character in "\n\t"
        ),
        cluster=_cluster_info(chosen, authority) if plugin.provide_cluster_info else None,
    )


def _cluster_info(chosen: ChosenContext, authority: PemSource | None) -> Document:
    """The cluster information for a plugin that requests it."""
    cluster = chosen.cluster
    info: Document = {"server": cluster.server}
    if cluster.tls_server_name:
        info["tls-server-name"] = cluster.tls_server_name
    if cluster.insecure_skip_tls_verify:
        info["insecure-skip-tls-verify"] = True
    if authority:
        data = authority.data or Path(authority.path).read_bytes()
        info["certificate-authority-data"] = base64.b64encode(data).decode()
    if cluster.disable_compression:
        info["disable-compression"] = True
    info["config"] = next((one.extension for one in cluster.extensions if one.name == EXEC_EXTENSION), None)
    return info


def _pem(where: str, field: str, path: str, data: str) -> PemSource | None:
    if data:
        try:
            return PemSource(f"{where}: {field}-data", data=base64.b64decode("".join(data.split()), validate=True))
        except (binascii.Error, ValueError):
            # Not chained, so that nothing of the key is shown.
            raise KubeconfigError(f"{where}: {field}-data: it is not base64") from None
    if path:
        _require_file(path, f"{where}: {field}")
        return PemSource(f"{where}: {field}", path=path)
    return None


def _require_file(path: str, setting: str) -> None:
    try:
        with Path(path).open("rb"):
            pass
    except OSError as error:
        raise KubeconfigError(f"{setting}: unable to read {path}: {error.strerror}") from error
