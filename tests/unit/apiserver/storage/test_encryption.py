"""Values encrypted at rest."""

import sqlite3
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.apiserver.storage.durable_store import DurableStore, open_store
from pykubelet.apiserver.storage.encryption import EncryptionTransformer, is_encrypted, make_key, read_keys
from pykubelet.apiserver.storage.interfaces import StoreSettings, StoreUnusable
from pykubelet.testing.virtual_time import VirtualClock
from stored_objects import key_of, put, value_of

SECRET = key_of("password", collection="secrets")
MAP = key_of("map")
SECRETS = frozenset({"secrets"})
ONE, TWO = b"1" * 32, b"2" * 32


@asynccontextmanager
async def opened(folder: Path, key_file: Path | None) -> AsyncIterator[DurableStore]:
    settings = StoreSettings(key_file=key_file)
    async with open_store(folder / "state.db", clock=VirtualClock(), settings=settings) as store:
        yield store


@given(st.binary())
def test_encrypted_value_decrypts_to_the_original_and_hides_it(text: bytes) -> None:
    """Only chosen collections are encrypted."""
    encryption = EncryptionTransformer([ONE], SECRETS)
    encrypted = encryption.encrypt(SECRET, text)
    assert is_encrypted(encrypted)
    assert len(text) < 4 or text not in encrypted
    assert encryption.decrypt(SECRET, encrypted) == text
    assert encryption.collections == SECRETS
    assert EncryptionTransformer([], SECRETS).collections == frozenset()


def test_encrypted_value_of_one_object_is_no_value_of_another() -> None:
    """A changed value does not decrypt either."""
    encryption = EncryptionTransformer([ONE], SECRETS)
    encrypted = encryption.encrypt(SECRET, b"{}")
    changed = [encrypted[:-1] + bytes([encrypted[-1] ^ 1]), encrypted[:21], encrypted[:12]]
    for key, value in [(key_of("other", collection="secrets"), encrypted), *((SECRET, value) for value in changed)]:
        with pytest.raises(StoreUnusable, match="was changed since it was encrypted"):
            encryption.decrypt(key, value)


def test_first_key_encrypts_and_all_keys_decrypt() -> None:
    """Keys are rotated by adding a line in front."""
    old = EncryptionTransformer([ONE], SECRETS).encrypt(SECRET, b"{}")
    both = EncryptionTransformer([TWO, ONE], SECRETS)
    assert both.decrypt(SECRET, old) == b"{}"
    assert EncryptionTransformer([TWO], SECRETS).decrypt(SECRET, both.encrypt(SECRET, b"{}")) == b"{}"
    with pytest.raises(
        StoreUnusable, match=r"secrets default/password is encrypted with key [0-9a-f]{16}, which is not"
    ):
        EncryptionTransformer([TWO], SECRETS).decrypt(SECRET, old)


def test_key_file_is_made_for_its_owner_only(tmp_path: Path) -> None:
    """An existing key file is never overwritten."""
    path = tmp_path / "keys" / "key"
    assert read_keys(path) == []
    key = make_key(path)
    assert read_keys(path) == [key]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(StoreUnusable, match="cannot be made: File exists"):
        make_key(path)


@pytest.mark.parametrize(
    ("content", "mode", "problem"),
    [
        pytest.param(b"", 0o600, "must hold 32 bytes in base64", id="empty"),
        pytest.param(b"c2hvcnQ=\n", 0o600, "must hold 32 bytes in base64", id="short"),
        pytest.param(b"no base64!", 0o600, "must hold 32 bytes in base64", id="not-base64"),
        pytest.param(b"MTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTE=\n", 0o640, "can be read by others", id="open"),
    ],
)
def test_invalid_key_file_is_refused(tmp_path: Path, content: bytes, mode: int, problem: str) -> None:
    """The error names the file and the problem."""
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(mode)
    with pytest.raises(StoreUnusable, match=f"the key file .*/key .*{problem}"):
        read_keys(path)


async def test_values_of_other_collections_are_written_plain_though_a_key_is_given(tmp_path: Path) -> None:
    """The file has the map as JSON and the secret encrypted."""
    async with opened(tmp_path, tmp_path / "key") as store:
        await put(store, MAP, "plain-value")
        await put(store, SECRET, "secret-value")
    rows = stored_values(tmp_path / "state.db")
    assert b"plain-value" in rows["configmaps"]
    assert rows["configmaps"].startswith(b"{")
    assert is_encrypted(rows["secrets"])
    async with opened(tmp_path, tmp_path / "key") as store:
        assert value_of(store.get(MAP)) == "plain-value"


def stored_values(path: Path) -> dict[str, bytes]:
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT collection, value FROM revisions"))


async def test_secrets_are_not_in_the_file_once_sealing_is_on(tmp_path: Path) -> None:
    """A value that was written before stays in plain text and readable."""
    key_file = tmp_path / "key"
    plain = key_of("plain", collection="secrets")
    async with opened(tmp_path, None) as store:
        await put(store, plain, "plain-password")
    async with opened(tmp_path, key_file) as store:
        await put(store, SECRET, "secret-password")
        assert value_of(store.get(plain)) == "plain-password"
    data = (tmp_path / "state.db").read_bytes()
    assert b"plain-password" in data
    assert b"secret-password" not in data
    async with opened(tmp_path, key_file) as store:
        assert value_of(store.get(SECRET)) == "secret-password"


@pytest.mark.parametrize("other", [pytest.param(TWO, id="another"), pytest.param(None, id="none")])
async def test_store_is_not_opened_without_the_key_it_was_encrypted_with(tmp_path: Path, other: bytes | None) -> None:
    """No new key replaces a missing one; with the right key the values are readable."""
    key_file = tmp_path / "key"
    async with opened(tmp_path, key_file) as store:
        await put(store, SECRET, 1)
    right = key_file.rename(tmp_path / "right")
    if other:
        make_key(key_file)
    with pytest.raises(StoreUnusable, match="give the key file that was used"):
        async with opened(tmp_path, key_file):
            pass
    assert key_file.exists() == bool(other)
    async with opened(tmp_path, right) as store:
        assert value_of(store.get(SECRET)) == 1
