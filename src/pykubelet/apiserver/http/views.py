"""Answers and events as a client wants them: as they are, a Table, metadata alone; JSON or YAML.

In: what the verbs answered, the negotiated `Form`, the query and the time. Out: a `Reply`, or the lines of a watch.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/response.go.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple

from pykubelet.api.wire import Document, decode_document, encode, indented
from pykubelet.apiserver.call import Answer
from pykubelet.apiserver.http.negotiate import PARTIAL, PARTIAL_LIST, TABLE, Form
from pykubelet.apiserver.http.reply import Reply, document_reply
from pykubelet.apiserver.http.warning_headers import warning_headers
from pykubelet.apiserver.http.watch_lines import Lines, plain_lines, shown_lines
from pykubelet.apiserver.served import Served

Now = Callable[[], datetime]
# Two hundred pods or so, whose table takes a few milliseconds.
_LONG_BYTES = 256 * 1024


class View(NamedTuple):
    """How a client wants to see what it asked for."""

    form: Form
    pretty: bool
    served: Served
    include: str = ""


def view_of(form: Form, served: Served, query: Mapping[str, str], *, pretty: bool) -> View:
    """How this request wants to see a resource."""
    return View(form, pretty, served, query.get("includeObject", ""))


def takes_long(answer: Answer, view: View) -> bool:
    """Whether it takes so long to show an answer that others must not wait for it."""
    is_as_stored = not (view.form.kind or view.form.yaml or view.pretty)
    return not is_as_stored and isinstance(answer.body, bytes) and len(answer.body) > _LONG_BYTES


def answer_reply(answer: Answer, view: View, now: Now) -> Reply:
    """The HTTP answer."""
    form = view.form
    if form.kind or form.yaml:
        document = _shown(answer.document, view, now(), headers=True) if form.kind else answer.document
        reply = document_reply(document, form, pretty=view.pretty, code=answer.code)
    else:
        text = answer.text
        reply = Reply(answer.code, indented(text) if view.pretty else text)
    return reply._replace(headers=warning_headers(answer.warnings)) if answer.warnings else reply


def watch_lines(view: View, now: Now) -> Lines:
    """What makes the lines of a watch; a Table has its columns in the first of them only."""
    if not view.form.kind:
        return plain_lines
    headers = True

    def shown(text: bytes) -> bytes:
        nonlocal headers
        document = _shown(decode_document(text), view, now(), headers=headers)
        headers = False
        return encode(document)

    return shown_lines(shown)


def _shown(document: Document, view: View, now: datetime, *, headers: bool) -> Document:
    # Most programs never ask for another form, so what makes them is loaded when one does.
    from pykubelet.apiserver.tables.partial import as_partial, as_partial_list
    from pykubelet.apiserver.tables.table import as_table

    kind, version = view.form.kind, view.form.version
    if kind == TABLE:
        return as_table(document, view.served, include=view.include, now=now, headers=headers, version=version)
    if kind == PARTIAL_LIST:
        return as_partial_list(document, version=version)
    assert kind == PARTIAL
    return as_partial(document, version=version)
