"""Which objects a request is about: label and field selectors.

In: selectors as text, and the resource. Out: a `Selection` that matches documents; BadRequest in upstream's words for a
text that is no selector or asks for a field that cannot be selected by.

Upstream: k8s.io/apiserver/pkg/storage/selection_predicate.go, pkg/apis/*/v1/conversion.go (field labels)
"""

from dataclasses import dataclass
from functools import lru_cache

from pykubelet.api.errors import BadRequest
from pykubelet.api.field_selector import FieldRequirement, FieldSelector, parse_field_selector
from pykubelet.api.selector import EVERYTHING, Selector, SelectorError
from pykubelet.api.selector_syntax import parse_selector
from pykubelet.api.validation.field_errors import go_quote
from pykubelet.api.wire import Document
from pykubelet.apiserver.served import Served

NO_FIELDS = FieldSelector()
# Those whose field labels upstream reads with code of their own.
_OWN_WORDS = frozenset(
    {
        "pods",
        "nodes",
        "replicationcontrollers",
        "events",
        "events.events.k8s.io",
        "namespaces",
        "secrets",
        "services",
        "certificatesigningrequests.certificates.k8s.io",
    }
)
_OLD_LABELS = {("pods", "spec.host"): "spec.nodeName"}
_EMPTY: Document = {"metadata": {}, "spec": {}, "status": {}}


@dataclass(frozen=True, slots=True)
class Selection:
    """Both selectors of a request; an object must match both."""

    labels: Selector = EVERYTHING
    fields: FieldSelector = NO_FIELDS

    @property
    def is_everything(self) -> bool:
        """Whether nothing is asked for, so that objects need not be looked at."""
        return not self.labels.requirements and not self.labels.nothing and not self.fields.requirements

    @property
    def name(self) -> str | None:
        """The one name that an object must have, if only one will do."""
        return self.fields.required_value("metadata.name")

    def matches(self, document: Document, served: Served) -> bool:
        """Whether an object, in the form that the resource serves, is selected."""
        if not self.labels.matches(document["metadata"].get("labels", {})):
            return False
        return not self.fields.requirements or self.fields.matches(served.strategy.fields(document))


ALL = Selection()


def selection(labels: str, fields: str, served: Served) -> Selection:
    """The selection that the texts stand for."""
    if not labels and not fields:
        return ALL
    try:
        return Selection(_labels(labels), _known(_fields(fields), served))
    except SelectorError as error:
        raise BadRequest(str(error)) from error


@lru_cache(maxsize=512)
def _labels(text: str) -> Selector:
    return parse_selector(text)


@lru_cache(maxsize=512)
def _fields(text: str) -> FieldSelector:
    return parse_field_selector(text)


def _known(fields: FieldSelector, served: Served) -> FieldSelector:
    if not fields.requirements:
        return fields
    resource = served.resource.group_resource
    known = served.strategy.fields(_EMPTY)
    requirements = []
    for one in fields.requirements:
        field = _OLD_LABELS.get((resource, one.field), one.field)
        if field not in known:
            raise BadRequest(_unknown_label(one.field, served))
        requirements.append(FieldRequirement(field, one.value, equal=one.equal))
    return FieldSelector(tuple(requirements))


def _unknown_label(label: str, served: Served) -> str:
    resource = served.resource.group_resource
    if resource in _OWN_WORDS or not served.definition:
        return f"field label not supported: {label}"
    if resource == "jobs.batch":
        return f"field label {go_quote(label)} not supported for Job"
    return f'{go_quote(label)} is not a known field selector: only "metadata.name", "metadata.namespace"'
