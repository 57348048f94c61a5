"""The query of a URL as Go reads it.

In: the text after the question mark, whatever a client wrote there. Out: its pairs; one that cannot be read is passed
over.

Upstream: Go's net/url (ParseQuery).
"""

import re
from urllib.parse import unquote_plus

BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def pairs(raw: str) -> list[tuple[str, str]]:
    """Every parameter with its value, in the order of the query."""
    found = []
    for part in raw.split("&"):
        if part and ";" not in part and not BAD_ESCAPE.search(part):
            key, _, value = part.partition("=")
            found.append((text_of(unquote_plus(key, errors="replace")), text_of(unquote_plus(value, errors="replace"))))
    return found


def text_of(text: str) -> str:
    """The same with U+FFFD for bytes that are no UTF-8, which arrive as lone surrogates."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
