"""Where a list that was cut goes on: the `continue` parameter.

In: the last object given and the revision of the list, or a token that a client sent. Out: a token, or that place;
BadRequest in upstream's words for what is no token.

Upstream: k8s.io/apiserver/pkg/storage/continue.go
"""

import base64
import posixpath
import re
from typing import Any, NamedTuple

from pykubelet.api.errors import BadRequest
from pykubelet.api.wire import DecodeError, decode_document, encode
from pykubelet.apiserver.requests.json_syntax import syntax_error

_VERSION = "meta.k8s.io/v1"
_INVALID = "continue key is not valid"
_STRANGE = re.compile(r"[^A-Za-z0-9_-]")
NEWEST = -1
"""Stands for whatever revision is the newest when the list goes on."""


class Place(NamedTuple):
    """The list goes on with the first object behind `start`, as of a revision."""

    start: str
    revision: int


def continue_token(start: str, revision: int) -> str:
    """The token for the objects behind `start`, which is `namespace/name`, or a name in a list of one namespace."""
    text = encode({"v": _VERSION, "rv": revision, "start": f"{start}\x00"})
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def read_continue_token(token: str) -> Place:
    """The place that a token stands for."""
    value = _decoded(token)
    fields = value if isinstance(value, dict) else {}
    version, revision, start = fields.get("v", ""), fields.get("rv", 0), fields.get("start", "")
    if not isinstance(version, str) or type(revision) is not int or not isinstance(start, str):
        raise _refused(f"{_INVALID}: json: cannot unmarshal it into Go value of type storage.continueToken")
    if version != _VERSION:
        raise _refused(f"{_INVALID}: server does not recognize this encoded version {version}")
    if revision == 0:
        raise _refused(f"{_INVALID}: incorrect encoded start resourceVersion (version {_VERSION})")
    if not start:
        raise _refused(f"{_INVALID}: encoded start key empty (version {_VERSION})")
    key = start if start.startswith("/") else f"/{start}"
    if posixpath.normpath(key) != key or key.startswith("//"):
        raise _refused(f"{_INVALID}: {start}")
    return Place(key[1:].removesuffix("\x00"), revision)


def _decoded(token: str) -> Any:
    strange = _STRANGE.search(token)
    if strange or len(token) % 4 == 1:
        place = strange.start() if strange else len(token) // 4 * 4
        raise _refused(f"{_INVALID}: illegal base64 data at input byte {place}")
    text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    try:
        return decode_document(text)
    except (DecodeError, ValueError) as error:
        raise _refused(f"{_INVALID}: {syntax_error(text) or 'it is no UTF-8'}") from error


def _refused(why: str) -> BadRequest:
    return BadRequest(f"invalid continue token: {why}")
