"""When to pull an image that says nothing about it: Always for `latest`, said or implied.

An image that is no valid reference has no tag, so it counts as not the latest.

Upstream: pkg/util/parsers/parsers.go and github.com/distribution/reference
"""

import re

# Possessive throughout, so that no text makes the search look at a character many times.
_DOMAIN_PART = r"[a-zA-Z0-9]++(?:-++[a-zA-Z0-9]++)*+"
_DOMAIN = rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*+|\[[a-fA-F0-9:]+\])(?::[0-9]++)?+"
_PATH_PART = r"[a-z0-9]++(?:(?:__|[._]|-++)[a-z0-9]++)*+"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*+(?:[-_+.][A-Za-z][A-Za-z0-9]*+)*+:[0-9a-fA-F]{32,}"
_REFERENCE = re.compile(
    rf"(?:{_DOMAIN}/)?({_PATH_PART}(?:/{_PATH_PART})*+)(?::([0-9A-Za-z_][0-9A-Za-z_.-]{{0,127}}))?(?:@({_DIGEST}))?"
)
_KNOWN_DIGEST = re.compile("sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}")
_IDENTIFIER = re.compile("[a-f0-9]{64}")
_MAX_PATH_LENGTH = 255


def default_pull_policy(image: str) -> str:
    """The pull policy of a container that names none."""
    return "Always" if _tag(image) == "latest" else "IfNotPresent"


def _tag(image: str) -> str:
    """The tag of an image, `latest` if it has neither tag nor digest, and nothing if it is no reference at all."""
    domain, remote = _split_domain(image)
    name = remote.partition(":")[0]
    match = _REFERENCE.fullmatch(f"{domain}/{remote}")
    if match is None or _IDENTIFIER.fullmatch(image) or name != name.lower():
        return ""
    path, tag, digest = match.groups(default="")
    if len(path) > _MAX_PATH_LENGTH or (digest and not _KNOWN_DIGEST.fullmatch(digest)):
        return ""
    return tag if tag or digest else "latest"


def _split_domain(image: str) -> tuple[str, str]:
    first, slash, rest = image.partition("/")
    is_domain = first == "localhost" or first != first.lower() or any(char in first for char in ".:")
    if slash and is_domain and first not in {"docker.io", "index.docker.io"}:
        return first, rest
    name = rest if slash and is_domain else image
    return "docker.io", name if "/" in name else f"library/{name}"
