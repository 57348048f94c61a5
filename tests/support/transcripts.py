"""Replays transcripts of a real kube-apiserver against another server and compares the answers.

A transcript has steps, each a request and the answer to expect. `${step.path}` in a path or body takes a value from an
earlier live answer, `${ns}` is a namespace created for the replay. What differs from run to run (uids, times,
revisions, generated names) is masked on both sides; `managedFields` are compared only where a step says so. A step
with `watch` reads events until the server ends the stream, while the steps under `while` are played.
"""

import json
import re
import ssl
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

Step = dict[str, Any]
Got = dict[str, Any]

_MASKS = {
    **dict.fromkeys(("creationTimestamp", "deletionTimestamp", "expirationTimestamp", "lastTransitionTime"), "<time>"),
    **dict.fromkeys(("lastProbeTime", "startTime", "firstTimestamp", "lastTimestamp", "eventTime"), "<time>"),
    **dict.fromkeys(("renewTime", "acquireTime"), "<time>"),
    "uid": "<uid>",
    "resourceVersion": "<rv>",
    "continue": "<continue>",
    "token": "<token>",
}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_AGE = re.compile(r"(\d+[smhdy])+")
_AGO = re.compile(r"\((\d+[smhdy])+ ago\)")
_RANDOM = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b")
_REVISION = re.compile(r"(in record \(|current: )\d+")
_REFERENCE = re.compile(r"\$\{([^}]+)\}")
# A watch must be open before the changes are made, and each change gets time to arrive.
_WATCH_OPENS_SECONDS = 0.3
_BETWEEN_SECONDS = 0.05
_pause = threading.Event().wait


def masked(value: Any, namespace: str, *, managed: bool = False, key: str = "") -> Any:
    """The value without what differs from run to run."""
    if isinstance(value, dict):
        kept = {name: item for name, item in value.items() if managed or name != "managedFields"}
        return {name: masked(item, namespace, managed=managed, key=name) for name, item in kept.items()}
    if isinstance(value, list):
        inner = key if key == "cells" else ""
        return [masked(item, namespace, managed=managed, key=inner) for item in value]
    return _masked_text(value, namespace, key) if isinstance(value, str) else value


def _masked_text(text: str, namespace: str, key: str) -> str:
    if key == "cells":
        # Also within a text, as in `7 (318d ago)`: the recorded objects carry fixed times, which grow older.
        text = "<age>" if _AGE.fullmatch(text) else _AGO.sub("(<age> ago)", text)
    if key in _MASKS and text:
        return _MASKS[key]
    text = _UID.sub("<uid>", _TIME.sub("<time>", text.replace(namespace, "<ns>")))
    if key in ("name", "message"):
        text = _REVISION.sub(r"\1<rv>", _RANDOM.sub("-<rand>", text))
    return text


def exact(want: Any, got: Any, path: str = "$") -> Iterator[str]:
    """How two values differ, in their types too: 1, 1.0 and true are three values."""
    if isinstance(want, dict) and isinstance(got, dict):
        yield from (f"{path}.{key}: missing" for key in want if key not in got)
        yield from (f"{path}.{key}: not expected ({got[key]!r})" for key in got if key not in want)
        for key in want:
            if key in got:
                yield from exact(want[key], got[key], f"{path}.{key}")
    elif isinstance(want, list) and isinstance(got, list):
        if len(want) != len(got):
            yield f"{path}: want {len(want)} items, got {len(got)}"
        else:
            for place, (left, right) in enumerate(zip(want, got, strict=True)):
                yield from exact(left, right, f"{path}[{place}]")
    elif type(want) is not type(got) or want != got:
        yield f"{path}: want {want!r}, got {got!r}"


def subset(want: Any, got: Any, path: str = "$") -> Iterator[str]:
    """The parts of `want` that `got` lacks; `got` may have more, and named elements of lists are matched by name."""
    if isinstance(want, dict):
        if not isinstance(got, dict):
            yield f"{path}: want an object, got {got!r}"
            return
        for key, item in want.items():
            yield from subset(item, got[key], f"{path}.{key}") if key in got else (f"{path}.{key}: missing",)
    elif isinstance(want, list):
        if not isinstance(got, list):
            yield f"{path}: want a list, got {got!r}"
            return
        for place, item in enumerate(want):
            yield from _element(item, got, f"{path}[{place}]")
    elif type(want) is not type(got) or want != got:
        yield f"{path}: want {want!r}, got {got!r}"


def _element(want: Any, got: list[Any], path: str) -> Iterator[str]:
    if isinstance(want, dict) and "name" in want:
        named = (item for item in got if isinstance(item, dict) and item.get("name") == want["name"])
        same = [item for item in named if item.get("kind") == want.get("kind")]
        yield from subset(want, same[0], path) if same else (f"{path} {want['name']}: missing",)
    elif all(any(exact(want, item)) for item in got):
        yield f"{path}: {want!r} missing"


def differences(step: Step, got: Got) -> list[str]:
    """How an answer, masked, differs from the recorded one."""
    # The recorded answer is masked already, except for what only this module masks.
    want = masked(step["expect"], "<ns>", managed=True)
    found = list(exact(want["status"], got["status"], "status"))
    how = step.get("compare", "exact")
    if found or how == "status":
        return found
    compare = subset if how == "subset" else exact
    return list(compare(_without_status(want), _without_status(got)))


def _without_status(answer: Got) -> Got:
    return {key: value for key, value in answer.items() if key != "status"}


class Play:
    """Replays one transcript against one server, step by step."""

    def __init__(self, path: Path, url: str, tls: ssl.SSLContext, token: str) -> None:
        self.steps: list[Step] = json.loads(path.read_bytes())["steps"]
        self._host, self._port = urlsplit(url).hostname or "", urlsplit(url).port
        self._tls, self._token = tls, token
        self._namespace = f"t{uuid.uuid4().hex[:8]}"
        self._live: dict[str, Any] = {}
        self._answers: list[Got] = []
        self._create("/api/v1/namespaces", "Namespace", self._namespace)
        self._create(f"/api/v1/namespaces/{self._namespace}/serviceaccounts", "ServiceAccount", "default")

    def answer(self, index: int) -> Got:
        """The masked answer to a step; the steps before it are played first, each once."""
        while len(self._answers) <= index:
            step = self.steps[len(self._answers)]
            try:
                got = self._play(step)
            except (OSError, HTTPException, LookupError, TypeError, ValueError) as error:
                # A value from the answer to an earlier step may be missing.
                got = {"status": 0, "text": f"{type(error).__name__}: {error}"}
            self._answers.append(masked(got, self._namespace, managed=step.get("managedFields", False)))
        return self._answers[index]

    def _create(self, path: str, kind: str, name: str) -> None:
        body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
        self._request({"id": f"_{kind}", "method": "POST", "path": path, "body": body})

    def _play(self, step: Step) -> Got:
        if step.get("watch"):
            return self._watch(step)
        got = self._request(step)
        _pause(step.get("wait", 0))
        return got

    def _watch(self, step: Step) -> Got:
        events: list[Any] = []
        status: list[int] = []

        def read() -> None:
            with closing(self._send(step)) as connection, connection.getresponse() as response:
                events.extend(json.loads(line) for line in response)
                status.append(response.status)

        reader = threading.Thread(target=read)
        reader.start()
        _pause(_WATCH_OPENS_SECONDS)
        for inner in step.get("while", ()):
            self._request(inner)
            _pause(_BETWEEN_SECONDS)
        reader.join()
        self._live[step["id"]] = events
        shown = [{"type": event["type"], "object": event["object"]} for event in events]
        return {"status": status[0], "events": shown}

    def _request(self, step: Step) -> Got:
        with closing(self._send(step)) as connection, connection.getresponse() as response:
            text = response.read().decode()
            got: Got = {"status": response.status}
            if warnings := response.headers.get_all("Warning"):
                got["warning"] = ", ".join(warnings)
        try:
            got["body"] = json.loads(text)
        except ValueError:
            got["text"] = text
        self._live[step["id"]] = got.get("body")
        return got

    def _send(self, step: Step) -> HTTPSConnection:
        headers = {"Content-Type": "application/json", "Accept": "application/json", **step.get("headers", {})}
        if token := step.get("as", self._token):
            headers["Authorization"] = f"Bearer {token}"
        body = self._filled(step.get("body"))
        data = body if body is None or isinstance(body, str) else json.dumps(body)
        connection = HTTPSConnection(self._host, self._port, context=self._tls, timeout=60)
        connection.request(step["method"], self._filled(step["path"]), body=data, headers=headers)
        return connection

    def _filled(self, value: Any) -> Any:
        """The value with references replaced by what they stand for."""
        if isinstance(value, dict):
            return {key: self._filled(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        return _REFERENCE.sub(self._referenced, value) if isinstance(value, str) else value

    def _referenced(self, match: re.Match[str]) -> str:
        if match[1] == "ns":
            return self._namespace
        name, *path = match[1].split(".")
        found = self._live[name]
        for part in path:
            found = found[int(part)] if isinstance(found, list) else found[part]
        return str(found)


Plays = Callable[[Path], Play]
