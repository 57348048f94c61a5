"""An HTTP answer as a value, and the few that are the same everywhere.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/{writers,errors}.go.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from pykubelet.api.errors import ApiError
from pykubelet.api.wire import Document, encode, indented
from pykubelet.api.yaml_write import to_yaml
from pykubelet.apiserver.http.negotiate import Form, error_form, wants_pretty
from pykubelet.apiserver.http.warning_headers import warning_headers

JSON = "application/json"
YAML = "application/yaml"
TEXT = "text/plain; charset=utf-8"


class Reply(NamedTuple):
    """Code, body, and headers beside those that every answer has."""

    code: int
    body: bytes
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


def text_reply(code: int, text: str) -> Reply:
    """Plain text, which a browser must not take for anything else."""
    return Reply(code, text.encode(), TEXT, (("X-Content-Type-Options", "nosniff"),))


NO_SUCH_PAGE = text_reply(404, "404 page not found\n")


def document_reply(document: Document, form: Form, *, pretty: bool, code: int = 200) -> Reply:
    """A document in the form asked for, as JSON or YAML."""
    if form.yaml:
        return Reply(code, to_yaml(document).encode(), YAML)
    text = encode(document)
    return Reply(code, indented(text) if pretty else text)


def error_reply(error: ApiError, accept: str, query: Mapping[str, str], user_agent: str) -> Reply:
    """An error as a Status."""
    form = error_form(accept)
    reply = document_reply(error.to_status(), form, pretty=wants_pretty(form, query, user_agent), code=error.code)
    headers = warning_headers(error.warnings)
    if error.retry_after_seconds is not None:
        headers += (("Retry-After", str(math.ceil(error.retry_after_seconds))),)
    return reply._replace(headers=headers) if headers else reply
