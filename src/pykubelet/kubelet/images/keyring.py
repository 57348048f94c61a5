"""Which credentials of a pod's pull secrets are for which image; no registry sees those of another.

Upstream: pkg/credentialprovider/{keyring,config}.go, secrets/secrets.go
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from pykubelet.api.generated.core import Secret
from pykubelet.kinds.pod.image_names import parse_image_name
from pykubelet.runtimes.protocol import RegistryCredentials

_DEFAULT_REGISTRY = "index.docker.io"
_DEFAULT_NAMES = frozenset({"docker.io", _DEFAULT_REGISTRY})
_API_VERSIONS = ("/v1/", "/v2/")


@dataclass(frozen=True, slots=True, repr=False)
class DockerKeyring:
    """Credentials, each with the registry, and maybe the path there, that it is for; never shown."""

    keys: tuple[tuple[str, RegistryCredentials], ...] = ()

    def credentials(self, image: str) -> tuple[RegistryCredentials, ...]:
        """Those for an image, the most specific first; none for a name that is none."""
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
    """The credentials that secrets hold. What is in none of the two forms of Docker's configuration is passed over."""
    keys = [
        (_place(location), credentials)
        for secret in secrets
        for location, entry in _entries(secret).items()
        if (credentials := _credentials(entry)) is not None
    ]
    # A longer path sorts behind its beginning, so from the end the most specific comes first.
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
    """What an entry holds: `auth` is both in one and goes before the two alone."""
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


def _place(location: str) -> str:
    """The registry and path of an entry; the path of a registry's API stands for the registry."""
    scheme, separator, rest = location.partition("://")
    place = rest if separator and scheme in {"http", "https"} else location
    host, slash, path = place.partition("/")
    path = slash + path
    if path.startswith(_API_VERSIONS):
        path = path[3:]
    return host if path in {"", "/"} else host + path


def _is_for(place: str, repository: str) -> bool:
    """Whether a key fits: the same port, host names alike part by part, the path a beginning."""
    wanted_host, wanted_port, wanted_path = _split(place)
    host, port, path = _split(repository)
    if wanted_port != port or not path.startswith(wanted_path):
        return False
    wanted_parts, parts = wanted_host.split("."), host.split(".")
    return len(wanted_parts) == len(parts) and all(map(fnmatchcase, parts, wanted_parts))


def _split(place: str) -> tuple[str, str, str]:
    """Host, port and path."""
    netloc, _, path = place.partition("/")
    host, colon, port = netloc.rpartition(":")
    return (host, port, path) if colon else (netloc, "", path)
