"""Complaints about names of certificate signers, such as `example.com/signer`.

Upstream: pkg/apis/core/validation/names.go
"""

from pykubelet.api.names import (
    DNS1123_LABEL_MAX_LENGTH,
    DNS1123_SUBDOMAIN_MAX_LENGTH,
    byte_length,
    dns1123_label_errors,
    dns1123_subdomain_errors,
)
from pykubelet.api.validation.field_errors import FieldError, each_invalid, go_quote, invalid, required, too_long
from pykubelet.api.validation.metadata import NameRule

# A domain, a slash, and a path that has room for a namespace, a dot and a name.
_MAX_LENGTH = DNS1123_SUBDOMAIN_MAX_LENGTH + 1 + DNS1123_LABEL_MAX_LENGTH + 1 + DNS1123_SUBDOMAIN_MAX_LENGTH


def is_kubernetes_signer(name: str) -> bool:
    """Whether the signer belongs to Kubernetes itself."""
    return f".{name.partition('/')[0]}".endswith(".kubernetes.io")


def signer_name_errors(name: str, path: str) -> list[FieldError]:
    """What is wrong with the name of a signer."""
    if not name:
        return [required(path)]
    if name.count("/") != 1:
        detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid(path, name, detail)]
    domain, _, own_path = name.partition("/")
    errors: list[FieldError] = []
    if byte_length(domain) > DNS1123_SUBDOMAIN_MAX_LENGTH:
        errors.append(too_long(path, DNS1123_SUBDOMAIN_MAX_LENGTH))
    errors += each_invalid(path, domain, _first_bad_part(domain, dns1123_label_errors))
    if "." not in domain:
        errors.append(invalid(path, domain, "should be a domain with at least two segments separated by dots"))
    errors += each_invalid(path, own_path, _first_bad_part(own_path, dns1123_subdomain_errors))
    return [*errors, too_long(path, _MAX_LENGTH)] if byte_length(name) > _MAX_LENGTH else errors


def _first_bad_part(text: str, rule: NameRule) -> list[str]:
    for part in text.split("."):
        if found := rule(part):
            return [f"validating label {go_quote(part)}: {error}" for error in found]
    return []
