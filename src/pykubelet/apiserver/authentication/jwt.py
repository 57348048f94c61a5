"""JSON Web Tokens signed with ES256 or RS256, and the key set to verify them.

The key determines the algorithm: the token's header must match it and decides nothing.

Upstream: pkg/serviceaccount/jwt.go
"""

import base64
import binascii
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from pykubelet.api.serializer import DecodeError, Document, decode_document, encode
from pykubelet.apiserver.certs.certificates import PrivateKey

PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey
# Bytes of each of the two numbers in a P-256 signature.
_HALF = 32


class JwtError(ValueError):
    """The text is not a JWT, or none of the keys signed it."""


class Signer:
    def __init__(self, key: PrivateKey) -> None:
        self._key = key
        header = {"alg": algorithm(key.public_key()), "kid": key_id(key.public_key())}
        self._header = _encoded(encode(header))

    def sign(self, claims: Document) -> str:
        content = f"{self._header}.{_encoded(encode(claims))}"
        return f"{content}.{_encoded(_signature(self._key, content.encode()))}"


class Verifier:
    def __init__(self, keys: Iterable[PublicKey]) -> None:
        self._keys = {key_id(key): key for key in keys}

    def claims(self, token: str) -> Document:
        """The claims of a token; JwtError unless one of the keys signed it."""
        content, _, signature = token.rpartition(".")
        head, _, body = content.partition(".")
        header, claims, signed = _document(head), _document(body), _decoded(signature)
        wanted = header.get("kid")
        for name, key in self._keys.items():
            suits = wanted in (None, "", name) and header.get("alg") == algorithm(key)
            if suits and _is_signed(key, content.encode(), signed):
                return claims
        raise JwtError("invalid signature")

    def key_set(self) -> Document:
        return {"keys": [_web_key(key) for key in self._keys.values()]}

    def algorithms(self) -> list[str]:
        return sorted({algorithm(key) for key in self._keys.values()})


def unverified_claims(token: str) -> Document | None:
    """The claims of a token without verification; None if the text is not a JWT."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        return _document(parts[1])
    except JwtError:
        return None


def algorithm(key: PublicKey) -> str:
    """The algorithm a key signs with; ValueError for an unsupported curve."""
    if isinstance(key, rsa.RSAPublicKey):
        return "RS256"
    if not isinstance(key.curve, ec.SECP256R1):
        raise ValueError(f"tokens are signed with keys of the curve P-256, not {key.curve.name}")  # noqa: TRY004  the kind fits, the value does not
    return "ES256"


def key_id(key: PublicKey) -> str:
    """The id of a key: a digest of it."""
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return _encoded(sha256(der).digest())


def _signature(key: PrivateKey, content: bytes) -> bytes:
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(content, padding.PKCS1v15(), hashes.SHA256())
    r, s = decode_dss_signature(key.sign(content, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(_HALF) + s.to_bytes(_HALF)


def _is_signed(key: PublicKey, content: bytes, signature: bytes) -> bool:
    try:
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(signature, content, padding.PKCS1v15(), hashes.SHA256())
        elif len(signature) != 2 * _HALF:
            return False
        else:
            r, s = int.from_bytes(signature[:_HALF]), int.from_bytes(signature[_HALF:])
            key.verify(encode_dss_signature(r, s), content, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def _web_key(key: PublicKey) -> Document:
    web_key: Document = {"use": "sig"}
    if isinstance(key, rsa.RSAPublicKey):
        numbers = key.public_numbers()
        web_key |= {"kty": "RSA", "kid": key_id(key), "alg": "RS256"}
        return web_key | {"n": _number(numbers.n), "e": _number(numbers.e)}
    point = key.public_numbers()
    web_key |= {"kty": "EC", "kid": key_id(key), "crv": "P-256", "alg": algorithm(key)}
    return web_key | {"x": _encoded(point.x.to_bytes(_HALF)), "y": _encoded(point.y.to_bytes(_HALF))}


def _number(value: int) -> str:
    return _encoded(value.to_bytes((value.bit_length() + 7) // 8))


def _document(text: str) -> Document:
    try:
        document: Any = decode_document(_decoded(text))
    except DecodeError as error:
        raise JwtError("not a token") from error
    if not isinstance(document, dict):
        raise JwtError("not a token")
    return document


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    # Python's decoder skips invalid characters, which would give a token several spellings.
    if not text.isascii() or not text.replace("-", "a").replace("_", "a").isalnum():
        raise JwtError("not a token")
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise JwtError("not a token") from error
