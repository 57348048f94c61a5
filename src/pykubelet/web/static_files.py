"""The files of the page as they ship with the program, read once."""

from functools import cache
from importlib import resources
from typing import NamedTuple

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
INDEX = "index.html"


class StaticFile(NamedTuple):
    """One of them."""

    content: bytes
    content_type: str


@cache
def static_files() -> dict[str, StaticFile]:
    """All of them by name: what is not among them cannot be asked for."""
    folder = resources.files("pykubelet.web") / "static"
    found = {}
    for file in folder.iterdir():
        content_type = _TYPES.get(file.name.rpartition(".")[2])
        if content_type is not None:
            found[file.name] = StaticFile(file.read_bytes(), content_type)
    return found
