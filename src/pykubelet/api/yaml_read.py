"""YAML and JSON texts to plain documents, read as kubectl reads them.

Bytes come in; every document of the stream comes out, with what is wrong with the others. PyYAML only splits the text
into events (`yaml_events`); `yaml_build` makes the values. A text that starts with `{` is tried as JSON first.

Upstream: k8s.io/apimachinery/pkg/util/yaml/decoder.go.
"""

import re
from typing import Any, NamedTuple

from pykubelet.api.json_read import read_json_stream
from pykubelet.api.yaml_build import Builder
from pykubelet.api.yaml_events import Position, YamlError
from pykubelet.api.yaml_positions import Duplicate, Path, Source

__all__ = ["MAX_BYTES", "YamlDocument", "YamlError", "YamlStream", "read_stream", "read_yaml"]

# What the kubelet reads of a manifest at most.
MAX_BYTES = 10 * 1024 * 1024
# Far more than fit into MAX_BYTES if each is an object that means anything.
MAX_DOCUMENTS = 100_000
# Past this many broken documents a text is no manifest.
_MAX_ERRORS = 20
_SEPARATOR = re.compile(rb"^---(?=\s|\Z)", re.MULTILINE)


class YamlDocument(NamedTuple):
    """One document of a stream: its value, where it starts, and where its fields stand."""

    value: Any
    at: Position
    source: Source
    ordinal: int
    repeats_key: bool

    def key_position(self, path: Path) -> Position:
        """Where the key of this field stands, or of the nearest thing around it that is in the text."""
        return self.source.key(self.ordinal, path) or self.at

    def value_position(self, path: Path) -> Position:
        """Where the value of this field starts, or of the nearest thing around it that is in the text."""
        return self.source.value(self.ordinal, path) or self.at

    def duplicates(self) -> tuple[Duplicate, ...]:
        """The keys given twice in one object."""
        if not self.repeats_key:
            return ()
        # A JSON text that the YAML parser cannot follow still repeats a key, somewhere.
        return tuple(self.source.duplicates(self.ordinal)) or (Duplicate((), self.at, self.at),)


class YamlStream(NamedTuple):
    """The documents that could be read, and why others could not."""

    documents: list[YamlDocument]
    errors: list[YamlError]


def read_yaml(data: bytes, *, strict: bool = False, max_bytes: int = MAX_BYTES) -> Any:
    """The value of a text that holds one document (None if it holds none); YamlError if it cannot be read.

    A repeated key's last value counts, as for kubectl; `strict` refuses it.
    """
    documents, errors = read_stream(data, max_bytes=max_bytes)
    if errors:
        raise errors[0]
    if not documents:
        return None
    document, *others = documents
    if others:
        line, column = others[0].at
        raise YamlError("expected one document, found a second", line=line, column=column)
    for path, at, first in document.duplicates() if strict else ():
        name = f'key "{path[-1]}"' if path else "a key"
        raise YamlError(f"{name} is already set at line {first.line}", line=at.line, column=at.column)
    return document.value


def read_stream(data: bytes, *, max_bytes: int = MAX_BYTES) -> YamlStream:
    """Every document of a YAML or JSON text. A broken document does not hide those after the next `---`."""
    if len(data) > max_bytes:
        return YamlStream([], [YamlError(f"the text has {len(data)} bytes, more than {max_bytes}")])
    if data.lstrip().startswith(b"{"):
        try:
            documents = _read_json(data)
        except YamlError as error:
            return YamlStream([], [error])
        if documents is not None:
            return YamlStream(documents, [])
    return _read_yaml_stream(data)


def _read_json(data: bytes) -> list[YamlDocument] | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    found = read_json_stream(text, MAX_DOCUMENTS)
    if found is None:
        return None
    documents = []
    line, line_start, counted = 1, 0, 0
    for value, start, end, repeats_key in found:
        if newlines := text.count("\n", counted, start):
            line += newlines
            line_start = text.rindex("\n", counted, start) + 1
        counted = start
        at = Position(line, start - line_start + 1)
        documents.append(YamlDocument(value, at, Source(text[start:end].encode(), at), 0, repeats_key))
    return documents


def _read_yaml_stream(data: bytes) -> YamlStream:
    stream = YamlStream([], [])
    offset, first_line, nodes = 0, 1, 0
    while len(stream.errors) < _MAX_ERRORS:
        text = data[offset:]
        builder = Builder(text, first_line=first_line, nodes=nodes)
        error = _collect(builder, Source(text, Position(first_line, 1)), stream.documents)
        if error is None:
            break
        stream.errors.append(error)
        resume = _next_document(text, max(error.line, builder.document_line + 1) - first_line)
        if not error.line or resume is None:
            break
        offset, first_line, nodes = offset + resume, first_line + text.count(b"\n", 0, resume), builder.nodes
    return stream


def _collect(builder: Builder, source: Source, into: list[YamlDocument]) -> YamlError | None:
    try:
        for ordinal, (value, at, repeats_key) in enumerate(builder.documents()):
            into.append(YamlDocument(value, at, source, ordinal, repeats_key))
            if len(into) > MAX_DOCUMENTS:
                return YamlError(f"the text has more than {MAX_DOCUMENTS} documents")
    except YamlError as error:
        return error
    return None


def _next_document(text: bytes, lines: int) -> int | None:
    """Where the first `---` after so many lines stands."""
    position = 0
    for _ in range(lines):
        position = text.find(b"\n", position) + 1
        if not position:
            return None
    # The parser looks ahead: an error may come before the start of its own document.
    match = _SEPARATOR.search(text, max(position, 1))
    return match.start() if match else None
