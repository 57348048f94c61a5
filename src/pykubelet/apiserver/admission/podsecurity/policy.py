"""The policy of a namespace: level and version of each mode, from its labels.

Upstream: staging/src/k8s.io/pod-security-admission/api/helpers.go,
staging/src/k8s.io/pod-security-admission/api/constants.go
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from pykubelet.api.field_errors import FieldError, invalid
from pykubelet.api.quantity import parse_int64

PREFIX = "pod-security.kubernetes.io/"
"""Of all labels that PodSecurity reads."""
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)")


class PodSecurityLevel(StrEnum):
    """From the least to the most strict one."""

    PRIVILEGED = "privileged"
    BASELINE = "baseline"
    RESTRICTED = "restricted"

    @property
    def strictness(self) -> int:
        return _LEVELS.index(self)


_LEVELS = tuple(PodSecurityLevel)


class LevelVersion(NamedTuple):
    """A level as some version of Kubernetes defines it."""

    level: PodSecurityLevel = PodSecurityLevel.PRIVILEGED
    minor: int | None = None
    """Of the version 1.x; None for the latest one."""

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor is None else f'v1.{self.minor}'}"


@dataclass(frozen=True, slots=True)
class PodSecurityPolicy:
    """What is enforced, recorded and warned about in a namespace."""

    enforce: LevelVersion
    audit: LevelVersion
    warn: LevelVersion
    errors: tuple[FieldError, ...] = ()
    """Labels that cannot be read. A level is then the strictest one if it is enforced, else the least strict one."""


def policy_of(labels: Mapping[str, str]) -> PodSecurityPolicy:
    """The policy that the labels of a namespace choose; a mode without labels is privileged."""
    errors: list[FieldError] = []
    enforce = _mode(labels, "enforce", errors, fallback=PodSecurityLevel.RESTRICTED)
    audit = _mode(labels, "audit", errors, fallback=PodSecurityLevel.PRIVILEGED)
    warn = _mode(labels, "warn", errors, fallback=PodSecurityLevel.PRIVILEGED)
    is_enforced = labels.get(f"{PREFIX}enforce") == enforce.level is not PodSecurityLevel.PRIVILEGED
    if is_enforced and f"{PREFIX}warn" not in labels:
        # Users of workloads, which nothing is enforced on, learn from a warning that their pods would be rejected.
        warn = LevelVersion(enforce.level, warn.minor if f"{PREFIX}warn-version" in labels else enforce.minor)
    return PodSecurityPolicy(enforce, audit, warn, tuple(errors))


def _mode(
    labels: Mapping[str, str], mode: str, errors: list[FieldError], *, fallback: PodSecurityLevel
) -> LevelVersion:
    level, minor = PodSecurityLevel.PRIVILEGED, None
    if (text := labels.get(f"{PREFIX}{mode}")) is not None:
        level = PodSecurityLevel(text) if text in _LEVELS else fallback
        if text not in _LEVELS:
            errors.append(_invalid_label(mode, text, f"must be one of {', '.join(_LEVELS)}"))
    if (text := labels.get(f"{PREFIX}{mode}-version")) is not None and text != "latest":
        found = _VERSION.fullmatch(text)
        minor = parse_int64(found[1]) if found else None
        if minor is None:
            errors.append(_invalid_label(f"{mode}-version", text, 'must be "latest" or "v1.x"'))
    return LevelVersion(level, minor)


def _invalid_label(name: str, value: str, detail: str) -> FieldError:
    return invalid(f"metadata.labels[{PREFIX}{name}]", value, detail)
