"""The rules of config maps and secrets.

Upstream: pkg/registry/core/{configmap,secret}/strategy.go, ValidateConfigMap, ValidateSecret and their like in
pkg/apis/core/validation/validation.go
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping

from pykubelet.api.field_errors import FieldError, TypedString, each_invalid, forbidden, invalid, required, too_long
from pykubelet.api.names import byte_length, config_map_key_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.serializer import Document
from pykubelet.kinds.kind import Strategy, Warnings, metadata_fields
from pykubelet.kinds.metadata import immutable_errors, metadata_errors, metadata_update_errors
from pykubelet.kinds.secret import secret_warnings

_MAX_BYTES = 1024 * 1024
_IMMUTABLE = "field is immutable when `immutable` is set"
_ACCOUNT_NAME = "kubernetes.io/service-account.name"
_DOCKER_CONFIGS = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}


def _default_config_map(document: Document) -> Document:
    return normal_form(document, "core.v1.ConfigMap")


def _validate_config_map(config_map: Document) -> list[FieldError]:
    errors = metadata_errors(config_map["metadata"])
    data, binary = config_map.get("data", {}), config_map.get("binaryData", {})
    for key in data:
        errors += each_invalid(f"data[{key}]", key, config_map_key_errors(key))
        if key in binary:
            errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    for key in binary:
        errors += each_invalid(f"binaryData[{key}]", key, config_map_key_errors(key))
    if sum(map(byte_length, data.values())) + _decoded_bytes(binary.values()) > _MAX_BYTES:
        # The whole object is at fault, and a path without a name is written like an empty index.
        errors.append(too_long("[]", _MAX_BYTES))
    return errors


def _validate_config_map_update(new: Document, old: Document) -> list[FieldError]:
    return [
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *_frozen_errors(new, old, ("data", "binaryData")),
        *_validate_config_map(new),
    ]


def _frozen_errors(new: Document, old: Document, names: Iterable[str]) -> list[FieldError]:
    """Whether something that was made immutable changes."""
    if not old.get("immutable"):
        return []
    errors = [] if new.get("immutable") else [forbidden("immutable", _IMMUTABLE)]
    return errors + [forbidden(name, _IMMUTABLE) for name in names if new.get(name) != old.get(name)]


def _default_secret(document: Document) -> Document:
    secret = {"type": "Opaque", **normal_form(document, "core.v1.Secret")}
    # Plain text is for writing only; the other data is what it becomes.
    if texts := secret.pop("stringData", None):
        encoded = {key: b64encode(value.encode()).decode() for key, value in texts.items()}
        secret["data"] = {**secret.get("data", {}), **encoded}
    return secret


def _validate_secret(secret: Document) -> list[FieldError]:
    errors = metadata_errors(secret["metadata"])
    data = secret.get("data", {})
    for key in data:
        errors += each_invalid(f"data[{key}]", key, config_map_key_errors(key))
    if _decoded_bytes(data.values()) > _MAX_BYTES:
        errors.append(too_long("data", _MAX_BYTES))
    kind = secret["type"]
    if kind == "kubernetes.io/service-account-token":
        if not secret["metadata"].get("annotations", {}).get(_ACCOUNT_NAME):
            errors.append(required(f"metadata.annotations[{_ACCOUNT_NAME}]"))
    elif kind in _DOCKER_CONFIGS:
        errors += _docker_config_errors(data, _DOCKER_CONFIGS[kind])
    else:
        errors += [required(f"data[{key}]") for key in _missing_keys(kind, data)]
    return errors


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


def _prepare_secret_update(new: Document, old: Document) -> Document:
    return new if new.get("type") else {**new, "type": old.get("type", "")}


def _validate_secret_update(new: Document, old: Document) -> list[FieldError]:
    return [
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *immutable_errors(new["type"], old["type"], "type", shown=TypedString(new["type"])),
        *_frozen_errors(new, old, ("data",)),
        *_validate_secret(new),
    ]


def _secret_fields(secret: Document) -> Mapping[str, str]:
    return {**metadata_fields(secret), "type": secret.get("type", "")}


def _decoded_bytes(texts: Iterable[str]) -> int:
    """How many bytes base64 texts stand for."""
    return sum(len(text) // 4 * 3 - text[-2:].count("=") for text in texts)


CONFIG_MAPS = Strategy(
    default=_default_config_map,
    validate_create=_validate_config_map,
    validate_update=_validate_config_map_update,
)
SECRETS = Strategy(
    default=_default_secret,
    validate_create=_validate_secret,
    prepare_update=_prepare_secret_update,
    validate_update=_validate_secret_update,
    warnings=Warnings.always(secret_warnings),
    fields=_secret_fields,
)
