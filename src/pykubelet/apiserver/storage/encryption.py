"""Encryption at rest: AES-256-GCM, each value bound to its object's key.

An encrypted value consists of a marker, the key's id, a nonce and the ciphertext, and cannot be moved to another
object; a plain one starts with `{`. The key file has one base64 key per line: the first encrypts, all of them decrypt,
so a new key goes first.

Upstream: staging/src/k8s.io/apiserver/pkg/storage/value/encrypt/aes/aes.go
"""

import base64
import binascii
import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pykubelet.apiserver.storage.interfaces import StoreKey, StoreUnusable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_MARK = b"\x01"
_ID_BYTES, _NONCE_BYTES, _KEY_BYTES = 8, 12, 32
_NONCE_AT = len(_MARK) + _ID_BYTES
_TEXT_AT = _NONCE_AT + _NONCE_BYTES


class EncryptionTransformer:
    """Encrypts the values of some collections. Without keys all values are plain."""

    def __init__(self, keys: Sequence[bytes], collections: frozenset[str]) -> None:
        self.collections = collections if keys else frozenset[str]()
        """The collections whose values are encrypted; empty without keys."""
        self._encryption_id = _id_of(keys[0]) if keys else b""
        self._ciphers = {_id_of(key): _cipher(key) for key in keys}

    def encrypt(self, key: StoreKey, text: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        encrypted = self._ciphers[self._encryption_id].encrypt(nonce, text, _bound_to(key))
        return _MARK + self._encryption_id + nonce + encrypted

    def decrypt(self, key: StoreKey, value: bytes) -> bytes:
        """The text of a stored value; StoreUnusable if no key decrypts it."""
        if not is_encrypted(value):
            return value
        key_id = value[len(_MARK) : _NONCE_AT]
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise StoreUnusable(
                f"{_shown(key)} is encrypted with key {key_id.hex()}, which is not among those given: "
                "give the key file that was used when it was written"
            )
        from cryptography.exceptions import InvalidTag

        try:
            return cipher.decrypt(value[_NONCE_AT:_TEXT_AT], value[_TEXT_AT:], _bound_to(key))
        except (InvalidTag, ValueError) as error:
            raise StoreUnusable(
                f"{_shown(key)} was changed since it was encrypted with key {key_id.hex()}: restore a backup"
            ) from error


def is_encrypted(value: bytes) -> bool:
    return value.startswith(_MARK)


def read_keys(path: Path) -> list[bytes]:
    """The keys in a key file, none if the file does not exist; StoreUnusable if it is invalid."""
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise StoreUnusable(f"the key file {path} can be read by others: chmod 600 it")
        lines = path.read_bytes().split()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreUnusable(f"the key file {path} cannot be read: {error.strerror}") from error
    keys = [_decoded(line) for line in lines]
    if not keys or any(len(key) != _KEY_BYTES for key in keys):
        raise StoreUnusable(f"the key file {path} must hold {_KEY_BYTES} bytes in base64 on each line")
    return keys


def make_key(path: Path) -> bytes:
    """Makes a key file that only its owner can read; it is on disk before a value is encrypted."""
    key = os.urandom(_KEY_BYTES)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(base64.b64encode(key) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise StoreUnusable(f"the key file {path} cannot be made: {error.strerror}") from error
    return key


def _cipher(key: bytes) -> "AESGCM":
    # Imported on use: a store without keys starts faster.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _decoded(line: bytes) -> bytes:
    try:
        return base64.b64decode(line, validate=True)
    except binascii.Error:
        return b""


def _id_of(key: bytes) -> bytes:
    return hashlib.sha256(b"pykubelet key id\0" + key).digest()[:_ID_BYTES]


def _bound_to(key: StoreKey) -> bytes:
    return "\0".join(key).encode()


def _shown(key: StoreKey) -> str:
    return f"{key.collection} {key.namespace}/{key.name}"
