"""What a credential plugin is told, and what it answers.

In: a plugin's settings, or the bytes it wrote. Out: the text for KUBERNETES_EXEC_INFO, or the credentials. No I/O.

Upstream: client-go/plugin/pkg/client/auth/exec/exec.go, client-go/rest/exec.go.
"""

from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from pykubelet.api import wire
from pykubelet.api.times import parse_time
from pykubelet.api.wire import Document
from pykubelet.kube.credential_error import CredentialError
from pykubelet.kube.tls import KeyPair

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """A program that prints credentials. Arguments and environment may hold secrets."""

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    api_version: str
    install_hint: str = ""
    cluster: Document | None = field(default=None, repr=False)
    """What the plugin is told of the cluster; None if it did not ask."""


@dataclass(frozen=True, slots=True)
class ExecAnswer:
    """What a plugin gave: a token, a key pair or both, and until when."""

    token: str = field(default="", repr=False)
    pair: KeyPair | None = None
    expires_at: datetime | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str = ""


class _Credential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


def exec_info(plugin: ExecPlugin) -> str:
    """The plugin's KUBERNETES_EXEC_INFO. It never gets our standard input, so it is never interactive."""
    spec: Document = {"interactive": False}
    if plugin.cluster is not None:
        spec = {"cluster": plugin.cluster, **spec}
    return wire.encode({"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}).decode()


def read_exec_answer(plugin: ExecPlugin, output: bytes) -> ExecAnswer:
    """The credentials in what the plugin wrote; CredentialError says what is wrong without showing it."""
    try:
        answer = wire.decode(output, _Credential)
    except wire.DecodeError as error:
        raise CredentialError(f"exec plugin {plugin.command}: its output is no ExecCredential: {error}") from None
    if answer.kind != "ExecCredential" or answer.api_version != plugin.api_version:
        raise CredentialError(
            f"exec plugin {plugin.command} is configured to use API version {plugin.api_version}, "
            f"plugin returned version {answer.api_version} of {answer.kind or 'no kind'}"
        )
    if answer.status is None:
        raise CredentialError(f"exec plugin {plugin.command} didn't return a status field")
    return _checked(plugin, answer.status)


def _checked(plugin: ExecPlugin, status: _Status) -> ExecAnswer:
    certificate, key = status.client_certificate_data, status.client_key_data
    if not (status.token or certificate or key):
        raise CredentialError(f"exec plugin {plugin.command} didn't return a token or cert/key pair")
    if bool(certificate) != bool(key):
        raise CredentialError(f"exec plugin {plugin.command} returned only certificate or key, not both")
    try:
        expires_at = parse_time(status.expiration_timestamp) if status.expiration_timestamp else None
    except ValueError as error:
        raise CredentialError(f"exec plugin {plugin.command}: expirationTimestamp: {error}") from error
    pair = KeyPair(certificate.encode(), key.encode()) if certificate else None
    return ExecAnswer(status.token, pair, expires_at)
