"""What the server knows of one version of a custom resource, beyond what every resource has.

In: documents. Out: documents as this version has them. All versions of a resource share one collection, in which objects
stand in the storage version; without a conversion webhook versions differ in their name and their schema alone.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go (unstructuredSchemaCoercer)
"""

from dataclasses import dataclass

from pykubelet.api.errors import BadRequest
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import OBJECT_META
from pykubelet.api.wire import Document
from pykubelet.apiserver.custom import pruning
from pykubelet.apiserver.custom.defaulting import with_defaults, without_stray_nulls
from pykubelet.apiserver.custom.embedded import unknown_embedded_fields, with_plain_metadata
from pykubelet.apiserver.custom.metadata_fields import metadata_mistake
from pykubelet.apiserver.custom.scale import ScaleRules
from pykubelet.apiserver.custom.schema import Schema
from pykubelet.apiserver.tables.custom_columns import CustomColumns

_TOO_DEEP = "the object is nested too deeply"


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomKind:
    """The schema of a version of a custom resource, and what comes with it."""

    api_version: str
    stored_api_version: str
    list_kind: str
    schema: Schema
    columns: CustomColumns
    scale: ScaleRules | None = None
    passes_through: bool = True
    """Whether the stored text is what this version shows: there is but one version, and it never changed."""

    def unknown_fields(self, document: Document) -> list[str]:
        """The paths of the fields that would be dropped, but for the object's own metadata."""
        try:
            return [*pruning.unknown_fields(document, self.schema), *unknown_embedded_fields(document, self.schema)]
        except RecursionError:
            raise BadRequest(_TOO_DEEP) from None

    def defaulted(self, document: Document) -> Document:
        """The object with known fields only, defaults filled in; BadRequest if its metadata is none."""
        if mistake := metadata_mistake(document.get("metadata")):
            raise BadRequest(mistake)
        try:
            known = without_stray_nulls(pruning.prune(document, self.schema), self.schema)
            filled: Document = with_defaults(with_plain_metadata(known, self.schema), self.schema)
        except RecursionError:
            raise BadRequest(_TOO_DEEP) from None
        return {**filled, "metadata": normal_form(filled.get("metadata") or {}, OBJECT_META)}

    def from_store(self, document: Document) -> Document:
        """A stored object as this version shows it."""
        return self.defaulted({**document, "apiVersion": self.api_version})

    def to_store(self, document: Document) -> Document:
        """An object of this version as it is stored."""
        if document.get("apiVersion") == self.stored_api_version:
            return document
        return {**document, "apiVersion": self.stored_api_version}
