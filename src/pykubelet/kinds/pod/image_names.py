"""Parses image names: registry and repository, tag, digest.

Raises ValueError with the message of Go's parser.

Upstream: pkg/util/parsers/parsers.go
"""

import re
from dataclasses import dataclass

from pykubelet.api.field_errors import go_quote

LATEST = "latest"
# Possessive quantifiers keep the search linear.
_DOMAIN_PART = r"[a-zA-Z0-9]++(?:-++[a-zA-Z0-9]++)*+"
_DOMAIN = rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*+|\[[a-fA-F0-9:]+\])(?::[0-9]++)?+"
_PATH_PART = r"[a-z0-9]++(?:(?:__|[._]|-++)[a-z0-9]++)*+"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*+(?:[-_+.][A-Za-z][A-Za-z0-9]*+)*+:[0-9a-fA-F]{32,}"
_REFERENCE = re.compile(
    rf"(?:{_DOMAIN}/)?({_PATH_PART}(?:/{_PATH_PART})*+)(?::([0-9A-Za-z_][0-9A-Za-z_.-]{{0,127}}))?(?:@({_DIGEST}))?"
)
_DIGEST_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}
_LOWER_HEX = re.compile("[a-f0-9]*")
_IDENTIFIER = re.compile("[a-f0-9]{64}")
_MAX_PATH_LENGTH = 255


@dataclass(frozen=True, slots=True)
class ImageName:
    """An image's repository with its registry, tag and digest; without a digest the tag is never empty."""

    repository: str
    tag: str
    digest: str


def parse_image_name(text: str) -> ImageName:
    """Parses an image name; without tag and digest the tag is `latest`."""
    try:
        return _parse(text)
    except ValueError as error:
        raise ValueError(f"couldn't parse image name {go_quote(text)}: {error}") from None


def with_default_tag(text: str) -> str:
    """The name with `:latest` appended if it has neither tag nor digest; ValueError if it is invalid."""
    name = parse_image_name(text)
    # A short name stays short: the runtime resolves its registry.
    return text if name.digest or text.endswith(f":{name.tag}") else f"{text}:{name.tag}"


def _parse(text: str) -> ImageName:
    if _IDENTIFIER.fullmatch(text):
        raise ValueError(f"invalid repository name ({text}), cannot specify 64-byte hexadecimal strings")
    domain, remote = _split_domain(text)
    path_given = remote.partition(":")[0]
    if path_given != path_given.lower():
        raise ValueError(f"invalid reference format: repository name ({path_given}) must be lowercase")
    match = _REFERENCE.fullmatch(f"{domain}/{remote}")
    if match is None:
        raise ValueError("invalid reference format")
    path, tag, digest = match.groups(default="")
    if len(path) > _MAX_PATH_LENGTH:
        raise ValueError(f"repository name must not be more than {_MAX_PATH_LENGTH} characters")
    if digest:
        _check_digest(digest)
    return ImageName(f"{domain}/{path}", tag if tag or digest else LATEST, digest)


def _check_digest(digest: str) -> None:
    algorithm, _, value = digest.partition(":")
    length = _DIGEST_LENGTHS.get(algorithm)
    if length is None:
        raise ValueError("unsupported digest algorithm")
    if len(value) != length:
        raise ValueError("invalid checksum digest length")
    if not _LOWER_HEX.fullmatch(value):
        raise ValueError("invalid checksum digest format")


def _split_domain(image: str) -> tuple[str, str]:
    first, slash, rest = image.partition("/")
    is_domain = first == "localhost" or first != first.lower() or any(char in first for char in ".:")
    if slash and is_domain and first not in {"docker.io", "index.docker.io"}:
        return first, rest
    name = rest if slash and is_domain else image
    return "docker.io", name if "/" in name else f"library/{name}"
