"""Reads manifests strictly: every document and every List, with file, line and field of each error.

The result is a `Manifest` of plain documents that fit their kinds, or a `ManifestError` with all problems. Unlike
upstream, which reads only the first document of a file and drops unknown fields silently, nothing is ignored.
`serializer.from_document` turns the documents into Structs.

Upstream: pkg/kubelet/config/common.go, staging/src/k8s.io/cli-runtime/pkg/resource/visitor.go
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from pykubelet.api.schema import LIST_META, OBJECT_META, definition_of, unknown_kind_reason
from pykubelet.api.serializer import Document
from pykubelet.api.strict import MAX_FINDINGS, StrictDecodingError, check_metadata, check_object, describe_value
from pykubelet.api.yaml.read import MAX_BYTES, Path, YamlDocument, read_stream

_PLAIN_STEP = re.compile(r"[A-Za-z0-9_$-]+")
_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
_LIST_FIELDS = ("apiVersion", "kind", "metadata", "items")


@dataclass(frozen=True, slots=True)
class ManifestItem:
    """One object of a manifest; `index` counts the objects of the manifest from 0."""

    document: Document = field(repr=False)
    api_version: str
    kind: str
    origin: str
    index: int
    _source: YamlDocument = field(repr=False, compare=False)
    _path: Path = field(repr=False, compare=False)

    @property
    def line(self) -> int:
        """The line on which the object starts."""
        return (self._source.value_position(self._path) if self._path else self._source.at).line

    def problem(self, field: str, message: str) -> "ManifestProblem":
        """Creates a problem at a field (`spec.containers[0].image`), or at its nearest parent that is in the text."""
        at = self._source.value_position((*self._path, *_path_of(field)))
        return ManifestProblem(self.origin, at.line, at.column, field, message)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The objects of one file or response in order; empty only for an explicit empty list."""

    origin: str
    items: tuple[ManifestItem, ...]


@dataclass(frozen=True, slots=True)
class ManifestProblem:
    """One problem and its position; line and column are 0 and the path is empty if they are unknown."""

    origin: str
    line: int
    column: int
    path: str
    message: str

    def __str__(self) -> str:
        place = f"{self.origin}:{self.line}:{self.column}" if self.line else self.origin
        return f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"


class ManifestError(ValueError):
    """The manifest is invalid; `problems` lists why, in line order."""

    def __init__(self, problems: tuple[ManifestProblem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def read_manifest(data: bytes, *, origin: str, max_bytes: int = MAX_BYTES) -> Manifest:
    """Reads every object of a YAML or JSON text; raises ManifestError if any is invalid.

    Empty documents are skipped, but a text without any object is an error. An explicit list may be empty.
    """
    found = read_each(data, origin=origin, max_bytes=max_bytes)
    if found.problems:
        raise ManifestError(found.problems)
    return Manifest(origin, found.items)


@dataclass(frozen=True, slots=True)
class ManifestReading:
    """The valid objects of a manifest, and the problems of the others in line order."""

    items: tuple[ManifestItem, ...]
    problems: tuple[ManifestProblem, ...]


def read_each(data: bytes, *, origin: str, max_bytes: int = MAX_BYTES) -> ManifestReading:
    """Reads a manifest like `read_manifest`, but keeps the valid documents beside invalid ones."""
    stream = read_stream(data, max_bytes=max_bytes)
    problems = [ManifestProblem(origin, error.line, error.column, "", error.message) for error in stream.errors]
    items: list[ManifestItem] = []
    index = 0
    filled = [document for document in stream.documents if document.value is not None]
    for document in filled:
        reading = _Reading(document, origin, first_index=index)
        reading.read(document.value, ())
        index += len(reading.items)
        wrong = list(islice(reading.problems(), MAX_FINDINGS - len(problems)))
        items += () if wrong else reading.items
        problems += wrong
        if len(problems) == MAX_FINDINGS:
            break
    if not filled and not problems:
        problems.append(ManifestProblem(origin, 0, 0, "", "the manifest contains no object"))
    return ManifestReading(tuple(items), tuple(sorted(problems, key=lambda problem: (problem.line, problem.column))))


def path_text(path: Path) -> str:
    """Formats a path: spec.containers[0].env[1].name; keys with special characters are in brackets."""
    text = ""
    for step in path:
        if isinstance(step, int) or not _PLAIN_STEP.fullmatch(step):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def _path_of(field: str) -> Path:
    """Parses what `path_text` writes."""
    found = (match.group(1) or match.group(2) or "" for match in _STEP.finditer(field))
    return tuple(int(step) if step.isdecimal() else step for step in found)


class _Reading:
    """Collects the objects and problems of one document."""

    def __init__(self, source: YamlDocument, origin: str, first_index: int) -> None:
        self.items: list[ManifestItem] = []
        self._source = source
        self._origin = origin
        self._first_index = first_index
        self._findings: list[StrictDecodingError] = []

    def read(self, value: Any, path: Path, default: tuple[str, str] | None = None) -> None:
        """Adds the object at this path, or the elements of a List, whose kind defaults to `default`."""
        if not isinstance(value, dict):
            self._report(path, f"expected an object, found {describe_value(value, secret=True)}")
            return
        if default is not None:
            value = {"apiVersion": default[0], "kind": default[1]} | value
        api_version, kind = (self._name(value, path, key) for key in ("apiVersion", "kind"))
        if not (api_version and kind):
            return
        if default is not None and default != (api_version, kind):
            self._report((*path, "kind"), f'expected {default[1]} of "{default[0]}" as in the list')
        elif _is_list(api_version, kind, value):
            self._read_list(value, path, api_version, kind)
        else:
            self._check(value, path, api_version, kind)
            index = self._first_index + len(self.items)
            self.items.append(ManifestItem(value, api_version, kind, self._origin, index, self._source, path))

    def problems(self) -> Iterator[ManifestProblem]:
        for path, at, first in self._source.duplicates():
            message = f"key is given twice (first at line {first.line})"
            yield ManifestProblem(self._origin, at.line, at.column, path_text(path), message)
        for path, message, at_key in self._findings:
            at = self._source.key_position(path) if at_key else self._source.value_position(path)
            yield ManifestProblem(self._origin, at.line, at.column, path_text(path), message)

    def _name(self, value: Document, path: Path, key: str) -> str:
        name = value.get(key)
        if name is None or name == "":
            self._report((*path, key), "required field is missing")
        elif not isinstance(name, str):
            self._report((*path, key), f"expected a string, found {describe_value(name)}")
        else:
            return name
        return ""

    def _read_list(self, value: Document, path: Path, api_version: str, kind: str) -> None:
        for key in value:
            if key not in _LIST_FIELDS:
                self._findings.append(StrictDecodingError((*path, key), "unknown field", at_key=True))
        self._add(check_metadata(value, LIST_META), path)
        elements = value.get("items")
        if elements is not None and not isinstance(elements, list):
            self._report((*path, "items"), f"expected a list, found {describe_value(elements)}")
            return
        default = None if (api_version, kind) == ("v1", "List") else (api_version, kind.removesuffix("List"))
        for index, element in enumerate(elements or ()):
            self.read(element, (*path, "items", index), default)

    def _check(self, value: Document, path: Path, api_version: str, kind: str) -> None:
        definition = definition_of(api_version, kind)
        if definition is not None:
            self._add(check_object(value, definition, secret=kind == "Secret"), path)
        elif mistake := unknown_kind_reason(api_version, kind):
            self._report((*path, "kind"), mistake)
        else:
            self._add(check_metadata(value, OBJECT_META), path)

    def _report(self, path: Path, message: str) -> None:
        self._findings.append(StrictDecodingError(path, message))

    def _add(self, findings: list[StrictDecodingError], path: Path) -> None:
        self._findings += [each._replace(path=path + each.path) for each in findings]


def _is_list(api_version: str, kind: str, value: Document) -> bool:
    if not kind.endswith("List"):
        return False
    element = kind.removesuffix("List")
    # A custom resource may have a kind that ends in `List` without being one.
    return not element or definition_of(api_version, element) is not None or isinstance(value.get("items"), list)
