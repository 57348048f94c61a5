"""Certificates and keys on disk: the current pair is always complete."""

import stat
from datetime import timedelta
from pathlib import Path

import pytest

from certificates import NOW, a_key, certificate_pem
from pykubelet.client.certificates.csr import client_template, key_pem
from pykubelet.client.certificates.store import CertificateStore, CertificateStoreError, read_key

WISH = client_template("n1")


def stored(files: CertificateStore, *, days: int = 0, key: int = 0) -> bytes:
    pem = certificate_pem(WISH, key=key)
    files.replace(pem, key_pem(a_key(key)), now=NOW + timedelta(days=days))
    return pem


def test_pair_is_stored_in_a_private_file_behind_a_link(tmp_path: Path) -> None:
    """One file with certificate and key, named by date, as the kubelet stores it."""
    files = CertificateStore(tmp_path / "pki", "kubelet-client")
    assert files.current() is None
    stored(files)
    path = tmp_path / "pki/kubelet-client-2026-05-01-12-00-00.pem"
    assert files.current_path.readlink() == path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes().count(b"-----BEGIN ") == 2


def test_new_pair_replaces_the_current_and_two_old_ones_are_kept(tmp_path: Path) -> None:
    """A process may still have an old file open."""
    files = CertificateStore(tmp_path, "kubelet-client")
    for days in range(5):
        stored(files, days=days, key=days)
    pair = files.current()
    assert pair is not None
    assert pair.key.public_key() == a_key(4).public_key()
    assert len(list(tmp_path.glob("kubelet-client-2026-*.pem"))) == 3


def test_interrupted_replacement_is_completed(tmp_path: Path) -> None:
    """The kubelet removes the old link before it renames the new one."""
    files = CertificateStore(tmp_path, "kubelet-client")
    stored(files)
    files.current_path.rename(tmp_path / "kubelet-client-updated.pem")
    assert files.current() is not None
    assert files.current_path.is_symlink()


def test_certificate_of_another_key_is_rejected(tmp_path: Path) -> None:
    """Invalid PEM is rejected as well; the current pair stays."""
    files = CertificateStore(tmp_path, "kubelet-client")
    stored(files)
    for pem in (certificate_pem(WISH, key=1), b"nonsense"):
        with pytest.raises(CertificateStoreError, match="is not one for the key of kubelet-client"):
            files.replace(pem, key_pem(a_key()), now=NOW)
    assert files.current() is not None


def test_file_in_place_of_the_link_is_left_alone(tmp_path: Path) -> None:
    """A regular file at the link's path is never overwritten."""
    files = CertificateStore(tmp_path, "kubelet-client")
    files.current_path.write_text("mine")
    with pytest.raises(CertificateStoreError, match="is a file and no link"):
        stored(files)
    with pytest.raises(CertificateStoreError, match="holds no certificate with its key"):
        files.current()
    assert files.current_path.read_text() == "mine"


def test_key_that_cannot_be_used_is_refused() -> None:
    """The message does not contain the key."""
    for pem in (b"", b"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"):
        with pytest.raises(ValueError, match="no private key") as caught:
            read_key(pem)
        assert "c2VjcmV0" not in str(caught.value)


def test_write_failure_names_the_path(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(CertificateStoreError, match="taken"):
        stored(CertificateStore(tmp_path / "taken", "kubelet-client"))
