"""Semantic versions: `semver('1.2.3')`.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/semverlib.go, vendor/github.com/blang/semver/v4/semver.go
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import total_ordering
from typing import Any

from pykubelet.api.cel.values import MAX_UINT64, CelError, add_kind, succeeds
from pykubelet.api.field_errors import go_quote

_DIGITS = re.compile("[0-9]+", re.ASCII)
_WORD = re.compile("[0-9A-Za-z-]+", re.ASCII)


class _VersionError(ValueError):
    """The text is not a semantic version."""


@total_ordering
@dataclass(frozen=True, slots=True, eq=True)
class Semver:
    """A semantic version; build metadata is ignored in comparisons."""

    numbers: tuple[int, int, int]
    before: tuple[int | str, ...] = ()
    """Pre-release identifiers: the parts after the dash."""
    build: str = field(default="", compare=False)

    def __lt__(self, other: "Semver") -> bool:
        return self._order() < other._order()

    def _order(self) -> tuple[Any, ...]:
        # Numbers sort before words; a pre-release sorts before its release.
        words = tuple((isinstance(word, str), word) for word in self.before)
        return (self.numbers, not words, words)


add_kind(Semver, "kubernetes.Semver")


def _read(text: str) -> Semver:
    if not text:
        raise _VersionError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise _VersionError("No Major.Minor.Patch elements found")
    rest, plus, build = parts[2].partition("+")
    patch, dash, before = rest.partition("-")
    for word in build.split(".") if plus else ():
        if _WORD.fullmatch(word) is None:
            problem = f"Invalid character(s) found in build meta data {go_quote(word)}"
            raise _VersionError(problem if word else "Build meta data is empty")
    major, minor, last = (
        _number(part, name) for part, name in zip((*parts[:2], patch), ("Major", "Minor", "Patch"), strict=True)
    )
    words = tuple(map(_word, before.split("."))) if dash else ()
    return Semver((major, minor, last), words, build)


def _number(text: str, name: str) -> int:
    if _DIGITS.fullmatch(text) is None:
        if not text:
            raise _VersionError('strconv.ParseUint: parsing "": invalid syntax')
        raise _VersionError(f"Invalid character(s) found in {name.lower()} number {go_quote(text)}")
    if text[0] == "0" and len(text) > 1:
        raise _VersionError(f"{name} number must not contain leading zeroes {go_quote(text)}")
    if len(text) > 20 or int(text) > MAX_UINT64:
        raise _VersionError(f"strconv.ParseUint: parsing {go_quote(text)}: value out of range")
    return int(text)


def _word(text: str) -> int | str:
    if not text:
        raise _VersionError("Prerelease is empty")
    if _DIGITS.fullmatch(text):
        if text[0] == "0" and len(text) > 1:
            raise _VersionError(f"Numeric PreRelease version must not contain leading zeroes {go_quote(text)}")
        return _number(text, "Prerelease")
    if _WORD.fullmatch(text) is None:
        raise _VersionError(f"Invalid character(s) found in prerelease {go_quote(text)}")
    return text


def _normalized(text: str) -> str:
    """Removes a leading `v` and zeros, and adds missing numbers as zeros."""
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            short = part.lstrip("0")
            parts[index] = short if short and short[0] in "0123456789" else f"0{short}"
    if len(parts) < 3 and any(sign in parts[-1] for sign in "+-"):
        raise _VersionError("short version cannot contain PreRelease/Build meta data")
    return ".".join([*parts, "0", "0"][:3])


def _version(text: str, normalizes: bool = False) -> Semver:
    try:
        return _read(_normalized(text) if normalizes else text)
    except _VersionError as error:
        raise CelError(str(error)) from None


OVERLOADS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("semver(string) -> kubernetes.Semver", _version),
    ("semver(string, bool) -> kubernetes.Semver", _version),
    ("isSemver(string) -> bool", succeeds(_version)),
    ("isSemver(string, bool) -> bool", succeeds(_version)),
    ("(kubernetes.Semver).isGreaterThan(kubernetes.Semver) -> bool", lambda a, b: a > b),
    ("(kubernetes.Semver).isLessThan(kubernetes.Semver) -> bool", lambda a, b: a < b),
    ("(kubernetes.Semver).compareTo(kubernetes.Semver) -> int", lambda a, b: int(a > b) - int(a < b)),
    ("(kubernetes.Semver).major() -> int", lambda version: version.numbers[0]),
    ("(kubernetes.Semver).minor() -> int", lambda version: version.numbers[1]),
    ("(kubernetes.Semver).patch() -> int", lambda version: version.numbers[2]),
)
