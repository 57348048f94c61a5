"""What is posted to a resource that stores nothing: reviews and token requests.

In: the call and the kind it must be of. Out: the object as Kubernetes would hold it; warnings go with the call.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/create.go
"""

from typing import NamedTuple

from pykubelet.api.normal_form import normal_form
from pykubelet.api.wire import Document
from pykubelet.apiserver.call import Answer, Call
from pykubelet.apiserver.failures import namespace_mismatch
from pykubelet.apiserver.requests.bodies import Expected, read_object, warnings_of
from pykubelet.apiserver.requests.query import WriteOptions, write_options

# What a client cannot say of its own object.
_SYSTEM_FIELDS = frozenset({"creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"})


class Posted(NamedTuple):
    """An object that was sent, and how."""

    document: Document
    options: WriteOptions
    definition: str

    def answer(self, document: Document) -> Answer:
        """The answer with what became of the object."""
        return Answer(body=normal_form(document, self.definition), code=201)


def posted(call: Call, expected: Expected) -> Posted:
    """The object in a call; ApiError if it is not of the expected kind, or of another namespace."""
    options = write_options(call.query, "CreateOptions")
    decoded = read_object(call.body, call.content_type, expected)
    call.warnings.extend(warnings_of(decoded.problems, options.field_validation, expected))
    document = normal_form(decoded.document, expected.definition)
    # The uid stays: a token request says by it which account it means, and a review must be empty of it.
    metadata = {field: value for field, value in document["metadata"].items() if field not in _SYSTEM_FIELDS}
    if not call.subresource:
        metadata.pop("uid", None)
    if call.namespace and metadata.setdefault("namespace", call.namespace) != call.namespace:
        raise namespace_mismatch()
    if not call.namespace:
        metadata.pop("namespace", None)
    return Posted(document | {"metadata": metadata}, options, expected.definition)
