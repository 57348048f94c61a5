"""Links of proxied pages: those that lead to the page's own host lead through the proxy instead.

An application behind `/api/v1/namespaces/ns/pods/web/proxy` does not know that prefix, so a browser would take its `/style.css`
for a path of the API server.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/proxy/transport.go
"""

import gzip
import html
import posixpath
import re
import zlib
from collections.abc import Collection
from functools import partial
from typing import NamedTuple

_ATTRIBUTES = {
    name: frozenset(attributes.split())
    for name, attributes in {
        "a": "href",
        "applet": "codebase",
        "area": "href",
        "audio": "src",
        "base": "href",
        "blockquote": "cite",
        "body": "background",
        "button": "formaction",
        "command": "icon",
        "del": "cite",
        "embed": "src",
        "form": "action",
        "frame": "longdesc src",
        "head": "profile",
        "html": "manifest",
        "iframe": "longdesc src",
        "img": "longdesc src usemap",
        "input": "src usemap formaction",
        "ins": "cite",
        "link": "href",
        "object": "classid codebase data usemap",
        "q": "cite",
        "script": "src",
        "source": "src",
        "video": "poster src",
    }.items()
}
"""The attributes of each element that hold a URL."""
# Whatever follows the name of a start tag belongs to it up to the end of the page, so that a page costs one pass.
_ATTRIBUTE = r"""([^\s/>][^\s/>=]*+)(?:(\s*+=\s*+)("[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^\s>"'][^\s>]*+))?+"""
_TAG = re.compile(rf"<!--.*?(?:-->|\Z)|<([a-zA-Z][^\s/>]*+)((?:[\s/]++|{_ATTRIBUTE})*+)(?:>|\Z)", re.DOTALL)
_ATTRIBUTE_OF_TAG = re.compile(_ATTRIBUTE, re.DOTALL)
_RAW = frozenset({"iframe", "noembed", "noframes", "plaintext", "script", "style", "textarea", "title", "xmp"})
"""The elements whose content has no tags."""
_URL = re.compile(r"(https?:)?(?://([^/?#]*))?(/[^?#]*)(.*)", re.DOTALL)
_LOCATION = re.compile(rb"(\r\nlocation:[ \t]*)([^\r\n]*)", re.IGNORECASE)
_IS_HTML = re.compile(rb"\r\ncontent-type:[ \t]*text/html[ \t]*[;\r]", re.IGNORECASE)
_ENCODING = re.compile(rb"\r\ncontent-encoding:[ \t]*([^\r\n]*)", re.IGNORECASE)
_BODY_HEADERS = re.compile(rb"\r\n(?:content-length|transfer-encoding):[^\r\n]*", re.IGNORECASE)
_GZIP = b"gzip"


class ProxiedLinks(NamedTuple):
    """What a link needs to lead through the proxy: the path that precedes the application's own, and the page's hosts."""

    prefix: str
    target_host: str
    """The address and port that the proxy connects to."""
    client_host: str
    """The host that the client asked for."""

    def link(self, url: str) -> str:
        """A URL with the prefix, if it is absolute and leads to the page's host."""
        found = _URL.fullmatch(url)
        if found is None or (found[2] and found[2] not in (self.target_host, self.client_host)):
            return url
        start = f"{found[1] or ''}//{found[2]}" if found[2] and found[2] == self.client_host else ""
        path = found[3]
        if not f"{path}/".startswith(f"{self.prefix}/"):
            path = posixpath.normpath(self.prefix + path) + ("/" if path.endswith("/") else "")
        return f"{start}{path}{found[4]}"

    def page(self, text: str) -> str:
        """An HTML page with its links; everything else stays as it is."""
        parts: list[str] = []
        copied = position = 0
        while found := _TAG.search(text, position):
            position = found.end()
            name = (found[1] or "").lower()
            if wanted := _ATTRIBUTES.get(name):
                attributes = _ATTRIBUTE_OF_TAG.sub(partial(self._attribute, wanted), found[2])
                parts += (text[copied : found.start(2)], attributes)
                copied = found.end(2)
            if name in _RAW:
                end = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(text, position)
                position = end.end() if end else len(text)
        return "".join((*parts, text[copied:]))

    def response_head(self, head: bytes) -> bytes:
        """The head of a response with the link of a redirect."""
        return _LOCATION.sub(lambda found: found[1] + _encoded(self.link(_decoded(found[2]))), head)

    def response(self, head: bytes, body: bytes, most_bytes: int) -> bytes:
        """A whole response that is a page; ValueError if its content is malformed or too long."""
        packed = _encoding(head) == _GZIP
        content = _unpacked(body, most_bytes) if packed else body
        content = _encoded(self.page(_decoded(content)))
        content = gzip.compress(content) if packed else content
        return _BODY_HEADERS.sub(b"", head[:-2]) + b"Content-Length: %d\r\n\r\n" % len(content) + content

    def _attribute(self, wanted: Collection[str], found: re.Match[str]) -> str:
        name, equals, value = found.groups()
        if value is None or name.lower() not in wanted:
            return found[0]
        quote = value[0] if value[0] in "\"'" else ""
        url = html.unescape(value.strip(quote) if quote else value)
        link = self.link(url)
        mark = quote or '"'
        return found[0] if link == url else f"{name}{equals}{mark}{html.escape(link)}{mark}"


def is_page(method: str, code: int, head: bytes) -> bool:
    """Whether a response has content with links, in an encoding that is understood."""
    has_content = method != "HEAD" and code not in (204, 304) and _LOCATION.search(head) is None
    return has_content and _IS_HTML.search(head) is not None and _encoding(head) in (b"", _GZIP)


def _encoding(head: bytes) -> bytes:
    found = _ENCODING.search(head)
    return found[1].strip().lower() if found else b""


def _unpacked(body: bytes, most_bytes: int) -> bytes:
    """The content of a gzip file, which may not be longer than a limit."""
    reader = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        content = reader.decompress(body, most_bytes)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not reader.eof:
        raise ValueError("incomplete or too long")
    return content


def _decoded(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
