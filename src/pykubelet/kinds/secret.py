"""Secret, with a warning if its certificate and private key do not match.

Upstream: pkg/registry/core/secret/strategy.go, pkg/apis/core/validation/validation.go
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pykubelet.api.field_errors import FieldError, each_invalid, invalid, required, too_long
from pykubelet.api.names import config_map_key_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import at, created, name_of
from pykubelet.kinds.config_map import MAX_DATA_BYTES, decoded_bytes, immutable_data_errors
from pykubelet.kinds.kind import Kind, Strategy, Warnings, metadata_fields
from pykubelet.kinds.metadata import metadata_errors, metadata_update_errors
from pykubelet.kinds.rules import immutable_fields_errors

_BEGIN, _END, _DASHES = b"\n-----BEGIN ", b"\n-----END ", b"-----"
_CERTIFICATE, _PRIVATE_KEY = "CERTIFICATE", "PRIVATE KEY"
_ACCOUNT_NAME = "kubernetes.io/service-account.name"
_DOCKER_CONFIGS = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}


class _Block(NamedTuple):
    type: str
    content: bytes


def _default(document: Document) -> Document:
    secret = {"type": "Opaque", **normal_form(document, "core.v1.Secret")}
    # stringData is write-only: it is encoded into data.
    if texts := secret.pop("stringData", None):
        encoded = {key: b64encode(value.encode()).decode() for key, value in texts.items()}
        secret["data"] = {**secret.get("data", {}), **encoded}
    return secret


def _validate(secret: Document) -> list[FieldError]:
    errors = metadata_errors(secret["metadata"])
    data = secret.get("data", {})
    for key in data:
        errors += each_invalid(f"data[{key}]", key, config_map_key_errors(key))
    if decoded_bytes(data.values()) > MAX_DATA_BYTES:
        errors.append(too_long("data", MAX_DATA_BYTES))
    kind = secret["type"]
    if kind == "kubernetes.io/service-account-token":
        if not secret["metadata"].get("annotations", {}).get(_ACCOUNT_NAME):
            errors.append(required(f"metadata.annotations[{_ACCOUNT_NAME}]"))
    elif kind in _DOCKER_CONFIGS:
        errors += _docker_config_errors(data, _DOCKER_CONFIGS[kind])
    else:
        errors += [required(f"data[{key}]") for key in _missing_keys(kind, data)]
    return errors


def _docker_config_errors(data: Mapping[str, str], key: str) -> list[FieldError]:
    if key not in data:
        return [required(f"data[{key}]")]
    try:
        config = json.loads(b64decode(data[key]))
    except (ValueError, RecursionError) as error:
        problem = str(error)
    else:
        if isinstance(config, dict) or config is None:
            return []
        problem = "the configuration is not an object"
    return [invalid(f"data[{key}]", "<secret contents redacted>", problem)]


def _missing_keys(kind: str, data: Mapping[str, str]) -> Iterable[str]:
    match kind:
        case "kubernetes.io/basic-auth":
            return () if "username" in data or "password" in data else ("username", "password")
        case "kubernetes.io/ssh-auth":
            return () if data.get("ssh-privatekey") else ("ssh-privatekey",)
        case "kubernetes.io/tls":
            return [key for key in ("tls.crt", "tls.key") if key not in data]
        case _:
            return ()


def _prepare_update(new: Document, old: Document) -> Document:
    return new if new.get("type") else {**new, "type": old.get("type", "")}


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    return [
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *immutable_fields_errors(new, old, ("type",)),
        *immutable_data_errors(new, old, ("data",)),
        *_validate(new),
    ]


def secret_warnings(document: Document) -> list[str]:
    """Warns about a TLS secret whose certificate and key do not match."""
    if document.get("type") != "kubernetes.io/tls":
        return []
    data = document.get("data", {})
    certificate, key = (b64decode(data.get(name, "")) for name in ("tls.crt", "tls.key"))
    problem = key_pair_problem(certificate, key)
    return [problem] if problem else []


def key_pair_problem(certificate: bytes, key: bytes) -> str:
    """The error of Go's tls.X509KeyPair for a PEM certificate and key; empty if they match."""
    blocks = [*_pem_blocks(certificate)]
    found = next((block for block in blocks if block.type == _CERTIFICATE), None)
    if found is None:
        return _no_certificate([block.type for block in blocks])
    skipped: list[str] = []
    for block in _pem_blocks(key):
        if block.type == _PRIVATE_KEY or block.type.endswith(f" {_PRIVATE_KEY}"):
            return _mismatch(found.content, block.content)
        skipped.append(block.type)
    return _no_key(skipped)


def _pem_blocks(text: bytes) -> Iterator[_Block]:
    """Yields the PEM blocks of a text and skips everything else, in linear time."""
    text = b"\n" + text
    place = 0
    while (begin := text.find(_BEGIN, place)) >= 0:
        place, kind = _rest_of_line(text, begin + len(_BEGIN))
        if not kind.endswith(_DASHES):
            continue
        end = text.find(_END, place)
        if end < 0:
            return
        lines = text[place:end].split(b"\n")
        place, closed = _rest_of_line(text, end + len(_END))
        try:
            content = b64decode(b"".join(line.strip() for line in lines if b":" not in line), validate=True)
        except ValueError:
            continue
        if closed == kind:
            yield _Block(kind.removesuffix(_DASHES).decode("utf-8", "replace"), content)


def _rest_of_line(text: bytes, start: int) -> tuple[int, bytes]:
    """The end of the line, and the rest of its text."""
    end = text.find(b"\n", start)
    end = len(text) if end < 0 else end
    return end, text[start:end].rstrip()


def _no_certificate(skipped: list[str]) -> str:
    if not skipped:
        return "tls: failed to find any PEM data in certificate input"
    if len(skipped) == 1 and skipped[0].endswith(_PRIVATE_KEY):
        return (
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may "
            "have been switched"
        )
    return (
        'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the following '
        f"types: [{' '.join(skipped)}]"
    )


def _mismatch(certificate: bytes, key: bytes) -> str:
    # Few secrets hold a certificate, and this import is slow.
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    try:
        public = x509.load_der_x509_certificate(certificate).public_key()
    except UnsupportedAlgorithm:
        return "tls: unknown public key algorithm"
    except ValueError:
        return "x509: malformed certificate"
    try:
        private = serialization.load_der_private_key(key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "tls: failed to parse private key"
    if not isinstance(private, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
        return "tls: failed to parse private key"
    if not isinstance(public, rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey):
        return "tls: unknown public key algorithm"
    own = private.public_key()
    if type(own) is not type(public):
        return "tls: private key type does not match public key type"
    return "" if own == public else "tls: private key does not match public key"


def _no_key(skipped: list[str]) -> str:
    if not skipped:
        return "tls: failed to find any PEM data in key input"
    if skipped == [_CERTIFICATE]:
        return "tls: found a certificate rather than a key in the PEM for the private key"
    return (
        'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM blocks of the '
        f"following types: [{' '.join(skipped)}]"
    )


def _fields(secret: Document) -> Mapping[str, str]:
    return {**metadata_fields(secret), "type": secret.get("type", "")}


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, type, data, age."""
    return [name_of(document), document.get("type", ""), len(at(document, "data")), created(document, age)]


KIND = Kind(
    resource=Resource("", "v1", "secrets", "Secret"),
    definition="core.v1.Secret",
    strategy=Strategy(
        default=_default,
        validate_create=_validate,
        prepare_update=_prepare_update,
        validate_update=_validate_update,
        warnings=Warnings.always(secret_warnings),
        fields=_fields,
    ),
    cells=_cells,
)
