"""String formats of schemas and of CEL's `format` library: date-time, uuid, ipv4 and so on.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/validation/formats.go,
vendor/k8s.io/kube-openapi/pkg/validation/strfmt/default.go
"""

import ipaddress
import re
from collections.abc import Callable
from datetime import date
from urllib.parse import urlsplit

_HEX = "[0-9a-fA-F]"


def _uuid(version: str, variant: str) -> str:
    return f"{_HEX}{{8}}-?{_HEX}{{4}}-?{version}{_HEX}{{3}}-?{variant}{_HEX}{{3}}-?{_HEX}{{12}}"


_LABEL = r"[0-9A-Za-z\u00a0-\uffff](?:[-0-9A-Za-z\u00a0-\uffff]{0,61}[0-9A-Za-z\u00a0-\uffff])?"
_PATTERNS = {
    "bsonobjectid": f"{_HEX}{{24}}",
    "hostname": rf"{_LABEL}|(?:{_LABEL}\.)+[A-Za-z\u00a0-\uffff]{{2,63}}",
    "mac": f"{_HEX}{{2}}(?:[:-]{_HEX}{{2}}){{5}}|{_HEX}{{4}}(?:\\.{_HEX}{{4}}){{2}}",
    "uuid": _uuid(_HEX, _HEX),
    "uuid3": _uuid("3", _HEX),
    "uuid4": _uuid("4", "[89abAB]"),
    "uuid5": _uuid("5", "[89abAB]"),
    "ssn": r"\d{3}[- ]?\d{2}[- ]?\d{4}",
    "hexcolor": f"#?(?:{_HEX}{{3}}|{_HEX}{{6}})",
    "rgbcolor": r"rgb\(\s*(?:\d{1,2}|1\d\d|2[0-4]\d|25[0-5])(?:\s*,\s*(?:\d{1,2}|1\d\d|2[0-4]\d|25[0-5])){2}\s*\)",
    "byte": r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})",
    "k8sshortname": r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?",
    "k8slongname": r"(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*",
    "datetime": (
        r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])[Tt](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?"
        r"(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
    ),
    "email": r"(?:[^<>@]*<)?[^\s<>@,;:\"]+@[^\s<>@,;:\"]+>?",
}
_GO_DURATION = re.compile(r"[+-]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_WORD_DURATION = re.compile(
    r"\d+\s*(?:ns|nano|us|µs|micro|ms|milli|s\b|sec|m\b|min|h\b|hr\b|hour|d\b|day|w\b|wk\b|week)", re.IGNORECASE
)
_CARD = re.compile(
    r"4\d{12}(?:\d{3})?|5[1-5]\d{14}|6(?:011|5\d\d)\d{12}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}|(?:2131|1800|35\d{3})\d{11}"
)


def is_known_format(format: str) -> bool:
    return format.replace("-", "") in _CHECKS


def has_format(format: str, text: str) -> bool:
    return _CHECKS[format.replace("-", "")](text)


def _matches(pattern: str) -> Callable[[str], bool]:
    # Compiled on first use and cached by the re module: few servers see many formats.
    return lambda text: re.fullmatch(pattern, text) is not None


def _is_uri(text: str) -> bool:
    """Parses like Go's url.ParseRequestURI: an absolute path or an absolute URL."""
    if not text or any(char <= " " for char in text):
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return text.startswith("/") or bool(parts.scheme)


def _is_address(text: str, *, sign: str) -> bool:
    if sign not in text:
        return False
    # Leading zeros are accepted for compatibility.
    plain = re.sub(r"(?<![\d:a-fA-F])0+(?=\d)", "", text) if sign == "." else text
    try:
        ipaddress.ip_address(plain)
    except ValueError:
        return False
    return "%" not in text


def _is_cidr(text: str) -> bool:
    if "/" not in text:
        return False
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return text.rpartition("/")[2].isdigit()


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _is_duration(text: str) -> bool:
    return _GO_DURATION.fullmatch(text) is not None or _WORD_DURATION.search(text) is not None


def _is_isbn(text: str, *, lengths: tuple[int, ...]) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if len(digits) not in lengths or not re.fullmatch(r"\d{9}[\dX]|\d{13}", digits):
        return False
    if len(digits) == 10:
        return sum((10 - place) * (10 if char == "X" else int(char)) for place, char in enumerate(digits)) % 11 == 0
    return sum((3 if place % 2 else 1) * int(char) for place, char in enumerate(digits)) % 10 == 0


def _is_card(text: str) -> bool:
    digits = re.sub(r"\D+", "", text)
    if not _CARD.fullmatch(digits):
        return False
    doubled = (int(char) * (2 if place % 2 else 1) for place, char in enumerate(reversed(digits)))
    return sum(number // 10 + number % 10 for number in doubled) % 10 == 0


_CHECKS: dict[str, Callable[[str], bool]] = {
    **{name: _matches(pattern) for name, pattern in _PATTERNS.items()},
    "uri": _is_uri,
    "ipv4": lambda text: _is_address(text, sign="."),
    "ipv6": lambda text: _is_address(text, sign=":"),
    "cidr": _is_cidr,
    "date": _is_date,
    "duration": _is_duration,
    "isbn": lambda text: _is_isbn(text, lengths=(10, 13)),
    "isbn10": lambda text: _is_isbn(text, lengths=(10,)),
    "isbn13": lambda text: _is_isbn(text, lengths=(13,)),
    "creditcard": _is_card,
    "password": lambda _text: True,
}
