"""Syntax rules of names, labels, ports, environment variables, IP addresses and CIDRs.

Each `*_errors` function returns Kubernetes' own error messages; an empty list means valid. Lengths count UTF-8 bytes,
and every regular expression matches the whole text in linear time. Older API fields accept IP addresses with leading
zeros; `parse_address` and `parse_network` read those.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go,
staging/src/k8s.io/apimachinery/pkg/util/validation/ip.go,
staging/src/k8s.io/apimachinery/pkg/api/validation/path/name.go, vendor/k8s.io/utils/net/parse.go
"""

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_WITH_UNDERSCORE = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"

_QUALIFIED_NAME = re.compile(_QUALIFIED)
_LABEL_VALUE = re.compile(f"({_QUALIFIED})?")
_DNS1123_LABEL = re.compile(_LABEL)
_DNS1123_SUBDOMAIN = re.compile(_SUBDOMAIN)
_DNS1123_SUBDOMAIN_WITH_UNDERSCORE = re.compile(rf"{_LABEL_WITH_UNDERSCORE}(\.{_LABEL_WITH_UNDERSCORE})*")
_WILDCARD_DNS1123_SUBDOMAIN = re.compile(rf"\*\.{_SUBDOMAIN}")
_DNS1035_LABEL = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
_C_IDENTIFIER = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_PERCENT = re.compile("[0-9]+%")
_HTTP_HEADER_NAME = re.compile("[-A-Za-z0-9]+")
_ENV_VAR_NAME = re.compile("[-._a-zA-Z][-._a-zA-Z0-9]*")
_CONFIG_MAP_KEY = re.compile("[-._a-zA-Z0-9]+")

QUALIFIED_NAME_MAX_LENGTH = 63
LABEL_VALUE_MAX_LENGTH = 63
DNS1123_LABEL_MAX_LENGTH = 63
DNS1123_SUBDOMAIN_MAX_LENGTH = 253
DNS1035_LABEL_MAX_LENGTH = 63
PORT_NAME_MAX_LENGTH = 15
# The largest user or group id that container runtimes accept.
MAX_ID = 2**31 - 1


def max_length_error(length: int) -> str:
    """Returns the message for a text of more than `length` bytes."""
    return f"must be no more than {length} characters"


def regex_error(message: str, expression: str, *examples: str) -> str:
    """Returns the message for a text that does not match an expression, with valid examples."""
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} ({'e.g. ' if examples else ''}{shown}regex used for validation is '{expression}')"


def empty_error() -> str:
    return "must be non-empty"


def inclusive_range_error(low: int, high: int) -> str:
    return f"must be between {low} and {high}, inclusive"


def qualified_name_errors(value: str) -> list[str]:
    """Checks a name with an optional DNS subdomain prefix: the syntax of label and annotation keys."""
    # Fast path: most keys are plain, and every object has many.
    if len(value) <= QUALIFIED_NAME_MAX_LENGTH and _QUALIFIED_NAME.fullmatch(value):
        return []
    syntax = regex_error(
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
        _QUALIFIED,
        *("MyName", "my.name", "123-abc"),
    )
    parts = value.split("/")
    if len(parts) > 2:
        return [f"a qualified name {syntax} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    errors: list[str] = []
    if len(parts) == 2:
        prefix_errors = dns1123_subdomain_errors(parts[0]) if parts[0] else [empty_error()]
        errors += [f"prefix part {error}" for error in prefix_errors]
    name = parts[-1]
    if not name:
        errors.append(f"name part {empty_error()}")
    elif byte_length(name) > QUALIFIED_NAME_MAX_LENGTH:
        errors.append(f"name part {max_length_error(QUALIFIED_NAME_MAX_LENGTH)}")
    if not _QUALIFIED_NAME.fullmatch(name):
        errors.append(f"name part {syntax}")
    return errors


def label_value_errors(value: str) -> list[str]:
    if len(value) <= LABEL_VALUE_MAX_LENGTH and _LABEL_VALUE.fullmatch(value):
        return []
    return _length_errors(value, LABEL_VALUE_MAX_LENGTH) + _regex_errors(
        value,
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
        _LABEL_VALUE,
        "MyValue my_value 12345",
    )


def dns1123_label_errors(value: str) -> list[str]:
    if len(value) <= DNS1123_LABEL_MAX_LENGTH and _DNS1123_LABEL.fullmatch(value):
        return []
    errors = _length_errors(value, DNS1123_LABEL_MAX_LENGTH)
    if not _DNS1123_LABEL.fullmatch(value) and _DNS1123_SUBDOMAIN.fullmatch(value):
        return [*errors, "must not contain dots"]
    return errors + _regex_errors(
        value,
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
        _DNS1123_LABEL,
        "my-name 123-abc",
    )


def dns1123_subdomain_errors(value: str) -> list[str]:
    """Checks a lower-case RFC 1123 subdomain, the syntax of most object names."""
    if len(value) <= DNS1123_SUBDOMAIN_MAX_LENGTH and _DNS1123_SUBDOMAIN.fullmatch(value):
        return []
    return _length_errors(value, DNS1123_SUBDOMAIN_MAX_LENGTH) + _regex_errors(
        value,
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
        _DNS1123_SUBDOMAIN,
        "example.com",
    )


def dns1123_subdomain_with_underscore_errors(value: str) -> list[str]:
    """Checks a subdomain whose labels may also contain underscores."""
    return _length_errors(value, DNS1123_SUBDOMAIN_MAX_LENGTH) + _regex_errors(
        value,
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character",
        _DNS1123_SUBDOMAIN_WITH_UNDERSCORE,
        "example.com",
    )


def wildcard_dns1123_subdomain_errors(value: str) -> list[str]:
    """Checks a subdomain after a leading `*.`."""
    return _length_errors(value, DNS1123_SUBDOMAIN_MAX_LENGTH) + _regex_errors(
        value,
        "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
        _WILDCARD_DNS1123_SUBDOMAIN,
        "*.example.com",
    )


def dns1035_label_errors(value: str) -> list[str]:
    """Checks a lower-case RFC 1035 label, which starts with a letter."""
    return _length_errors(value, DNS1035_LABEL_MAX_LENGTH) + _regex_errors(
        value,
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
        _DNS1035_LABEL,
        "my-name abc-123",
    )


def c_identifier_errors(value: str) -> list[str]:
    return _regex_errors(
        value,
        "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'",
        _C_IDENTIFIER,
        "my_name MY_NAME MyName",
    )


def env_var_name_errors(value: str) -> list[str]:
    """Checks an environment variable name by the original, strict rule."""
    return _regex_errors(
        value,
        "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must not start with a digit",
        _ENV_VAR_NAME,
        "my.env-name MY_ENV.NAME MyEnvName1",
    ) + _parent_directory_errors(value)


def relaxed_env_var_name_errors(value: str) -> list[str]:
    """Checks an environment variable name by the relaxed rule: printable ASCII without `=`."""
    if not value:
        return [f"environment variable name {empty_error()}"]
    if value.isascii() and value.isprintable() and "=" not in value:
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def config_map_key_errors(value: str) -> list[str]:
    """Checks a key of a ConfigMap or Secret, which is also a file name."""
    return (
        _length_errors(value, DNS1123_SUBDOMAIN_MAX_LENGTH)
        + _regex_errors(
            value,
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            _CONFIG_MAP_KEY,
            "key.name KEY_NAME key-name",
        )
        + _parent_directory_errors(value)
    )


def port_number_errors(port: int) -> list[str]:
    return in_range_errors(port, 1, 65535)


def port_name_errors(value: str) -> list[str]:
    """Checks a port name: at most 15 lower-case letters, digits and single inner hyphens."""
    errors = _length_errors(value, PORT_NAME_MAX_LENGTH)
    if not re.fullmatch("[-a-z0-9]+", value):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        errors.append("must contain at least one letter (a-z)")
    if "--" in value:
        errors.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        errors.append("must not begin or end with a hyphen")
    return errors


def in_range_errors(value: int, low: int, high: int) -> list[str]:
    return [] if low <= value <= high else [inclusive_range_error(low, high)]


def user_id_errors(uid: int) -> list[str]:
    return in_range_errors(uid, 0, MAX_ID)


def group_id_errors(gid: int) -> list[str]:
    return in_range_errors(gid, 0, MAX_ID)


def percent_errors(value: str) -> list[str]:
    """Checks for digits followed by a percent sign."""
    return _regex_errors(
        value, "a valid percent string must be a numeric string followed by an ending '%'", _PERCENT, "1% 93%"
    )


def http_header_name_errors(value: str) -> list[str]:
    """Checks an HTTP header name as probes and lifecycle hooks send it."""
    return _regex_errors(
        value, "a valid HTTP header must consist of alphanumeric characters or '-'", _HTTP_HEADER_NAME, "X-Header-Name"
    )


def ip_errors(value: str) -> list[str]:
    """Checks an IP address; each part may have leading zeros."""
    dotted_first = "." in value.partition(":")[0]
    if _is_ipv4(value) if dotted_first else _is_ipv6(value):
        return []
    return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]


def cidr_errors(value: str) -> list[str]:
    """Checks a CIDR; each part of the address may have leading zeros."""
    address, _, length = value.partition("/")
    bits = 32 if _is_ipv4(address) else 128 if _is_ipv6(address) else -1
    if re.fullmatch("0*[0-9]{1,3}", length) and int(length[-3:]) <= bits:
        return []
    return ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]


def path_segment_errors(value: str) -> list[str]:
    """Checks that the value can be one segment of a URL path, as every object name must."""
    if value in {".", ".."}:
        return [f"may not be '{value}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in value]


def byte_length(value: str) -> int:
    """Returns the length in bytes of UTF-8, as Go's `len` does."""
    return len(value) if value.isascii() else len(value.encode("utf-8", errors="surrogatepass"))


def _length_errors(value: str, limit: int) -> list[str]:
    return [max_length_error(limit)] if byte_length(value) > limit else []


def _regex_errors(value: str, message: str, expression: re.Pattern[str], examples: str) -> list[str]:
    return [] if expression.fullmatch(value) else [regex_error(message, expression.pattern, *examples.split())]


def _parent_directory_errors(value: str) -> list[str]:
    if value in {".", ".."}:
        return [f"must not be '{value}'"]
    return ["must not start with '..'"] if value.startswith("..") else []


def _is_ipv4(value: str) -> bool:
    parts = value.split(".")
    return len(parts) == 4 and all(re.fullmatch("0*[0-9]{1,3}", part) and int(part[-3:]) <= 255 for part in parts)


def _is_ipv6(value: str) -> bool:
    head, ellipsis, tail = value.partition("::")
    groups = [group for side in (head, tail) if side for group in side.split(":")]
    room = 7 if ellipsis else 8  # `::` stands for at least one group of zeros.
    if groups and "." in groups[-1] and value.endswith(groups[-1]):
        if not _is_ipv4(groups.pop()):
            return False
        room -= 2
    fits = len(groups) <= room if ellipsis else len(groups) == room
    return fits and all(re.fullmatch("0*[0-9A-Fa-f]{1,4}", group) for group in groups)


Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


@lru_cache(maxsize=4096)
def parse_address(text: str) -> Address | None:
    """Parses an IP address, or returns None; an IPv4-mapped IPv6 address stays IPv6."""
    if ip_errors(text):
        return None
    if ":" not in text:
        return ip_address(_without_leading_zeros(text))
    *groups, last = text.split(":")
    last = _without_leading_zeros(last) if "." in last else _short_group(last)
    return ip_address(":".join([*map(_short_group, groups), last]))


def parse_network(text: str) -> Network | None:
    """Parses a CIDR into the network that contains its address, or returns None."""
    if cidr_errors(text):
        return None
    address, _, length = text.partition("/")
    return ip_network((str(parse_address(address)), int(length)), strict=False)


def unmap_ipv4(address: Address) -> Address:
    """Returns the IPv4 address of an IPv4-mapped IPv6 address, which Go treats as equal."""
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


def _without_leading_zeros(text: str) -> str:
    return ".".join(str(int(part)) for part in text.split("."))


def _short_group(group: str) -> str:
    return group[-4:] if group else group
