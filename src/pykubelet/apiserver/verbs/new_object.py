"""From the object that a client sends to the one that is stored: the path of every creation.

In: an object with defaults, in its namespace, its managed fields recorded. Out: the object to store; ApiError if it must
not be. Part of a decision of the store: plain, quick, nothing awaited.

Upstream: k8s.io/apiserver/pkg/registry/rest/create.go (BeforeCreate), registry/generic/registry/store.go (create)
"""

from pykubelet.api.errors import ApiError
from pykubelet.api.wire import Document
from pykubelet.apiserver.failures import invalid_object
from pykubelet.apiserver.objects.object_metadata import (
    AFTER_ADMISSION,
    creation_errors,
    with_metadata,
    without_repeated_owners,
    without_system_fields,
)
from pykubelet.apiserver.requests.revisions import parse_revision
from pykubelet.apiserver.verbs.means import Means, Writing, now_text

# What is left of 63 letters, the length of a label, once the suffix stands behind.
_LONGEST_PREFIX = 58


def generated_name(prefix: str, suffix: str) -> str:
    """A name that starts with `generateName`."""
    return f"{prefix[:_LONGEST_PREFIX]}{suffix}"


def new_object(means: Means, writing: Writing, document: Document, name: str) -> Document:
    """The object to store under this name, which may have been made up."""
    served, strategy = writing.served, writing.served.strategy
    document = without_system_fields(document)
    # Admission sees the name that was asked for, not one that was made up meanwhile.
    asked_name = document["metadata"].get("name", "")
    admitted = writing.admit(means, "create", asked_name, document, None)
    assert admitted is not None
    admitted, warnings = without_repeated_owners(admitted, when=AFTER_ADMISSION)
    writing.warn(*warnings)
    made = with_metadata(
        admitted, name=name or None, creationTimestamp=now_text(means.clock.now()), uid=means.ids.uid()
    )
    writing.warn(*strategy.warnings.received(made))
    made = strategy.prepare_create(made)
    errors = strategy.validate_create(made) or creation_errors(made)
    if errors:
        raise invalid_object(served.resource, name, errors)
    writing.warn(*strategy.warnings.create(made))
    if parse_revision(made["metadata"].get("resourceVersion", "")):
        # Upstream gives no reason with this one.
        raise ApiError("resourceVersion should not be set on objects to be created")
    return made
