"""Finds the credentials for an image in a pod's pull secrets; no registry receives those of another.

Upstream: pkg/credentialprovider/keyring.go, pkg/credentialprovider/config.go, pkg/credentialprovider/secrets/secrets.go
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from pykubelet.api.generated.core import Secret
from pykubelet.kinds.pod.defaults import parse_image_name
from pykubelet.runtimes.protocol import RegistryCredentials

_DEFAULT_REGISTRY = "index.docker.io"
_DEFAULT_NAMES = frozenset({"docker.io", _DEFAULT_REGISTRY})
_API_VERSIONS = ("/v1/", "/v2/")


@dataclass(frozen=True, slots=True, repr=False)
class DockerKeyring:
    """Credentials with the registry, and possibly the path, that each is for; excluded from repr."""

    keys: tuple[tuple[str, RegistryCredentials], ...] = ()

    def credentials(self, image: str) -> tuple[RegistryCredentials, ...]:
        """The credentials for an image, the most specific first; none for an invalid image name."""
        try:
            repository = parse_image_name(image).repository
        except ValueError:
            return ()
        found = tuple(credentials for place, credentials in self.keys if _is_for(place, repository))
        if not found and repository.partition("/")[0] in _DEFAULT_NAMES:
            return tuple(credentials for place, credentials in self.keys if place == _DEFAULT_REGISTRY)
        return found


EMPTY_KEYRING = DockerKeyring()


def keyring_of(secrets: Iterable[Secret]) -> DockerKeyring:
    """The credentials in secrets of the two Docker configuration types; ignores malformed entries."""
    keys = [
        (_registry_and_path(location), credentials)
        for secret in secrets
        for location, entry in _entries(secret).items()
        if (credentials := _credentials(entry)) is not None
    ]
    # A path sorts after its prefixes, so in reverse order the most specific comes first.
    return DockerKeyring(tuple(sorted(keys, key=lambda key: key[0], reverse=True)))


def _entries(secret: Secret) -> Mapping[str, Any]:
    match secret.type:
        case "kubernetes.io/dockerconfigjson":
            document = _decoded(secret.data.get(".dockerconfigjson", b"")).get("auths")
        case "kubernetes.io/dockercfg":
            document = _decoded(secret.data.get(".dockercfg", b""))
        case _:
            document = None
    return document if isinstance(document, dict) else {}


def _decoded(data: bytes) -> Mapping[str, Any]:
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return document if isinstance(document, dict) else {}


def _credentials(entry: Any) -> RegistryCredentials | None:
    """The credentials of an entry: `auth` has user and password in one and overrides the single fields."""
    if not isinstance(entry, dict):
        return None
    username, password, both = (str(entry.get(name) or "") for name in ("username", "password", "auth"))
    if both:
        try:
            text = base64.b64decode(both + "=" * (-len(both) % 4), validate=True).decode()
        except ValueError:
            return None
        username, colon, password = text.partition(":")
        if not colon:
            return None
    return RegistryCredentials(username, password)


def _registry_and_path(location: str) -> str:
    """Registry and path of an entry, without scheme and API version."""
    scheme, separator, rest = location.partition("://")
    place = rest if separator and scheme in {"http", "https"} else location
    host, slash, path = place.partition("/")
    path = slash + path
    if path.startswith(_API_VERSIONS):
        path = path[3:]
    return host if path in {"", "/"} else host + path


def _is_for(place: str, repository: str) -> bool:
    """Whether a key matches: same port, host labels match as patterns, path is a prefix."""
    wanted_host, wanted_port, wanted_path = _split(place)
    host, port, path = _split(repository)
    if wanted_port != port or not path.startswith(wanted_path):
        return False
    wanted_parts, parts = wanted_host.split("."), host.split(".")
    return len(wanted_parts) == len(parts) and all(map(fnmatchcase, parts, wanted_parts))


def _split(place: str) -> tuple[str, str, str]:
    netloc, _, path = place.partition("/")
    host, colon, port = netloc.rpartition(":")
    return (host, port, path) if colon else (netloc, "", path)
