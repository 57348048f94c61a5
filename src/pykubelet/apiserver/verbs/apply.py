"""Server-side apply: the object that a manager wants, merged into the live one field by field.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/patch.go (applyPatcher)
"""

from pykubelet.api.errors import BadRequest
from pykubelet.api.wire import Document
from pykubelet.api.yaml_read import read_stream
from pykubelet.apiserver.failures import conflict
from pykubelet.apiserver.fields.manage import apply
from pykubelet.apiserver.requests.bodies import check_types
from pykubelet.apiserver.requests.patches import json_name
from pykubelet.apiserver.requests.query import STRICT
from pykubelet.apiserver.verbs.change import Update
from pykubelet.apiserver.verbs.means import Means, Writing, expected_of, now_text


def applied(means: Means, writing: Writing) -> Update:
    """The function from the live object to the one with the body's fields; BadRequest if the body is none."""
    document = applied_configuration(writing)
    served, options = writing.served, writing.options

    def wanted(live: Document | None) -> Document:
        merged = apply(
            live,
            document,
            definition=means.schemas.of(served),
            manager=options.field_manager,
            api_version=served.resource.api_version,
            subresource=writing.call.subresource,
            now=now_text(means.clock.now()),
            force=options.force,
        )
        if live is None and (uid := merged["metadata"].get("uid")):
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise conflict(served.resource, writing.call.name, why)
        # Merging looks at the shape of values, not at what texts say: a quantity, a time.
        check_types(merged, expected_of(served))
        return served.strategy.default(merged)

    return wanted


def applied_configuration(writing: Writing) -> Document:
    """What is applied, as the sender wrote it; fields it does not name are left to others."""
    documents, errors = read_stream(writing.call.body)
    if errors:
        raise BadRequest(f"error decoding YAML: error converting YAML to JSON: {errors[0].upstream}")
    # An empty text is an object without fields.
    document = documents[0].value if documents and documents[0].value is not None else {}
    if not isinstance(document, dict):
        shown = json_name(document)
        raise BadRequest(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: "
            f"json: cannot unmarshal {shown} into Go value of type map[string]interface {{}}"
        )
    repeated = documents[0].duplicates() if documents and writing.options.field_validation == STRICT else ()
    if repeated:
        # Upstream's warning of it has a line break, which no header can hold: less than strictness does not show it.
        lines = "".join(f'\n  line {at.line}: key "{path[-1]}" already set in map' for path, at, _ in repeated)
        raise BadRequest(f"error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:{lines}")
    if not isinstance(document.get("metadata"), dict):
        document["metadata"] = {}
    return document
