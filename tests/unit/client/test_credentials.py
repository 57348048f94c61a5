"""Credentials are reloaded when due, kept while a reload fails, and never printed."""

import os
import ssl
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from pykubelet.client.exec_plugin import ExecPlugin, exec_info, read_exec_credential
from pykubelet.client.transport import (
    ClientKeyPair,
    Credential,
    CredentialError,
    PemFiles,
    PemSource,
    ServerTrust,
    TlsContexts,
    TokenFile,
    UserCredentials,
    basic,
)
from pykubelet.testing.virtual_time import ManualClock

V1 = "client.authentication.k8s.io/v1"
PLUGIN = ExecPlugin(command="login", api_version=V1)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def pair_of(authority: trustme.CA, name: str) -> ClientKeyPair:
    issued = authority.issue_cert(common_name=name)
    return ClientKeyPair(b"".join(blob.bytes() for blob in issued.cert_chain_pems), issued.private_key_pem.bytes())


async def test_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    """The trailing newline is not part of the token."""
    clock = ManualClock()
    path = tmp_path / "token"
    path.write_text("one\n")
    file = TokenFile(str(path), setting="tokenFile", clock=clock)
    assert await file.token() == "one"
    path.write_text("two\n")
    clock.advance(59)
    assert await file.token() == "one"
    clock.advance(1)
    assert await file.token() == "two"


async def test_token_file_is_read_again_at_once_when_its_token_was_rejected(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    credentials = UserCredentials(token_file=TokenFile(str(path), setting="tokenFile", clock=ManualClock()))
    first = await credentials.current()
    path.write_text("two")
    assert await credentials.current() == first
    await credentials.rejected(first)
    assert (await credentials.current()).authorization == "Bearer two"


async def test_missing_or_empty_token_file_leaves_the_last_token(tmp_path: Path) -> None:
    clock = ManualClock()
    path = tmp_path / "token"
    path.write_text("one")
    file = TokenFile(str(path), setting="tokenFile", clock=clock)
    await file.token()
    for change in (lambda: path.write_text(" \n"), path.unlink):
        change()
        clock.advance(60)
        assert await file.token() == "one"


async def test_token_file_that_was_never_readable_falls_back_or_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "token"
    path = str(file)
    assert await TokenFile(path, setting="x", clock=ManualClock(), fallback="given").token() == "given"
    with pytest.raises(CredentialError, match=f"users: tokenFile: cannot read {path}: No such file"):
        await TokenFile(path, setting="users: tokenFile", clock=ManualClock()).token()
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(CredentialError, match="it is not text"):
        await TokenFile(path, setting="x", clock=ManualClock()).token()


async def test_certificate_files_are_read_again_when_they_change(tmp_path: Path) -> None:
    """After ten seconds, or at once after a 401; unchanged files yield the same object."""
    clock = ManualClock()
    certificate, key = tmp_path / "crt", tmp_path / "key"
    certificate.write_text("c1")
    key.write_text("k1")
    pair = PemFiles(
        PemSource("client-certificate", path=str(certificate)), PemSource("client-key", path=str(key)), clock=clock
    )
    credentials = UserCredentials(pair=pair)
    first = await credentials.current()
    clock.advance(11)
    assert (await credentials.current()).pair is first.pair
    certificate.write_text("c2!")
    assert (await credentials.current()).pair is first.pair
    clock.advance(11)
    assert (await credentials.current()).pair == ClientKeyPair(b"c2!", b"k1")
    key.write_text("k2!")
    await credentials.rejected(first)
    assert (await credentials.current()).pair == ClientKeyPair(b"c2!", b"k2!")
    key.unlink()
    clock.advance(11)
    assert (await credentials.current()).pair == ClientKeyPair(b"c2!", b"k2!")


async def test_certificate_file_replaced_by_a_link_swap_is_read_again(tmp_path: Path) -> None:
    """The kubelet replaces kubelet-client-current.pem in this way."""
    clock = ManualClock()
    for name in ("old", "new"):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (1, 1))
    link = tmp_path / "current"
    link.symlink_to("old")
    files = PemFiles(PemSource("x", path=str(link)), clock=clock)
    assert await files.read() == (b"old",)
    (tmp_path / "next").symlink_to("new")
    (tmp_path / "next").rename(link)
    clock.advance(11)
    assert await files.read() == (b"new",)


async def test_unreadable_certificate_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialError, match=f"client-key: cannot read {tmp_path}: Is a directory"):
        await PemFiles(PemSource("client-key", path=str(tmp_path)), clock=ManualClock()).read()


async def test_missing_certificate_file_is_named() -> None:
    with pytest.raises(CredentialError, match='users "a": client-key: cannot read /nowhere: No such file'):
        await PemFiles(PemSource('users "a": client-key', path="/nowhere"), clock=ManualClock()).read()


async def test_contexts_are_fresh_only_when_the_pair_changed(
    authority: trustme.CA, caplog: pytest.LogCaptureFixture
) -> None:
    """A key that does not match keeps the last good context until the next change, and is logged once."""
    contexts = TlsContexts(ServerTrust(), clock=ManualClock())
    one, two = pair_of(authority, "one"), pair_of(authority, "two")
    first = await contexts.current(one)
    assert await contexts.current(ClientKeyPair(one.certificate, one.key)) is first
    for _ in range(3):
        assert await contexts.current(ClientKeyPair(two.certificate, one.key)) is first
    assert len(caplog.records) == 1
    assert await contexts.current(two) is not first


async def test_contexts_refuse_old_tls() -> None:
    context = await TlsContexts(ServerTrust(insecure=True), clock=ManualClock()).current(None)
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


async def test_encrypted_key_is_an_error_without_a_password_prompt(authority: trustme.CA) -> None:
    pair = pair_of(authority, "one")
    key = load_pem_private_key(pair.key, None)
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"password"))
    with pytest.raises(CredentialError, match="cannot be used"):
        await TlsContexts(ServerTrust(), clock=ManualClock()).current(ClientKeyPair(pair.certificate, encrypted))


async def test_unusable_pairs_and_authorities_are_errors_without_their_content(authority: trustme.CA) -> None:
    one, two = pair_of(authority, "one"), pair_of(authority, "two")
    with pytest.raises(CredentialError, match="KEY_VALUES_MISMATCH"):
        await TlsContexts(ServerTrust(), clock=ManualClock()).current(ClientKeyPair(one.certificate, two.key))
    with pytest.raises(CredentialError, match="cannot be used"):
        await TlsContexts(ServerTrust(), clock=ManualClock()).current(ClientKeyPair(b"s3cret", b"s3cret"))
    trust = ServerTrust(ca=PemSource('clusters "a": certificate-authority-data', data=b"s3cret"))
    with pytest.raises(CredentialError, match='clusters "a": certificate-authority-data: no usable PEM'):
        await TlsContexts(trust, clock=ManualClock()).current(None)


def test_credentials_show_no_secret() -> None:
    credential = Credential(basic("me", "s3cret"), ClientKeyPair(b"s3cret", b"s3cret"))
    assert basic("me", "s3cret") == "Basic bWU6czNjcmV0"
    assert "s3cret" not in repr(credential)
    assert "bWU6czNjcmV0" not in repr(credential)
    assert "s3cret" not in repr(PemSource("x", data=b"s3cret"))


def test_exec_plugin_gets_no_cluster_info_by_default() -> None:
    assert exec_info(PLUGIN) == f'{{"kind":"ExecCredential","apiVersion":"{V1}","spec":{{"interactive":false}}}}'


def test_plugin_answer_gives_token_pair_and_expiry() -> None:
    answer = read_exec_credential(
        PLUGIN,
        f'{{"kind":"ExecCredential","apiVersion":"{V1}","status":{{"token":"s3cret","clientCertificateData":"c",'
        '"clientKeyData":"k","expirationTimestamp":"2026-01-02T03:04:05Z"}}'.encode(),
    )
    assert (answer.token, answer.pair) == ("s3cret", ClientKeyPair(b"c", b"k"))
    assert answer.expires_at is not None
    assert answer.expires_at.isoformat() == "2026-01-02T03:04:05+00:00"
    assert "s3cret" not in repr(answer)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("s3cret", "no ExecCredential"),
        ('{"kind":"ExecCredential","apiVersion":"V1","status":{"token":7}}', "Expected `str`, got `int`"),
        ('{"kind":"ExecCredential","apiVersion":"v2","status":{"token":"s3cret"}}', "plugin returned version v2"),
        ('{"apiVersion":"V1","status":{"token":"s3cret"}}', "of no kind"),
        ('{"kind":"ExecCredential","apiVersion":"V1"}', "didn't return a status field"),
        ('{"kind":"ExecCredential","apiVersion":"V1","status":{}}', "didn't return a token or cert/key pair"),
        (
            '{"kind":"ExecCredential","apiVersion":"V1","status":{"clientKeyData":"s3cret"}}',
            "returned only certificate or key, not both",
        ),
        (
            '{"kind":"ExecCredential","apiVersion":"V1","status":{"token":"s3cret","expirationTimestamp":"soon"}}',
            "expirationTimestamp",
        ),
    ],
)
def test_invalid_exec_plugin_output_is_rejected_without_printing_it(output: str, message: str) -> None:
    with pytest.raises(CredentialError, match=message) as caught:
        read_exec_credential(PLUGIN, output.replace('"V1"', f'"{V1}"').encode())
    assert "s3cret" not in str(caught.value)
