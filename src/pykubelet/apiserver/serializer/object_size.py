"""Limits of one object's size, which bound the time that its defaults and validation take."""

from pykubelet.api.errors import TooLarge
from pykubelet.api.serializer import Document, encode

MAX_OBJECT_BYTES = 3 * 1024 * 1024
"""As much as a request may have; etcd, which upstream uses, accepts half of it."""
MAX_INNER_OBJECTS = 100_000
"""Empty containers and ports, whose defaults are fifty times as long, could be a million of them."""


def check_size(document: Document) -> Document:
    """Returns the document; TooLarge if it takes more than a second to default and validate."""
    text = encode(document)
    if len(text) > MAX_OBJECT_BYTES:
        raise TooLarge(f"Request entity too large: an object has at most {MAX_OBJECT_BYTES} bytes of JSON")
    if text.count(b"{") > MAX_INNER_OBJECTS:
        raise TooLarge(f"Request entity too large: an object has at most {MAX_INNER_OBJECTS} objects within")
    return document
