"""Finds the parameters of a policy's binding: objects of any served kind, by name or by selector.

Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go
"""

from pykubelet.api.labels import selector_from_document
from pykubelet.api.serializer import Document
from pykubelet.apiserver.registry import ServedKinds
from pykubelet.apiserver.storage.codec import collection_of, key_of, served_document
from pykubelet.apiserver.storage.interfaces import Store
from pykubelet.kinds.kind import Kind


class ConfigurationError(Exception):
    """A policy or binding cannot be applied to a write as it is configured."""


class ParamSource:
    """Reads the parameters of policies from the store."""

    def __init__(self, registry: ServedKinds, store: Store) -> None:
        self._registry, self._store = registry, store
        self._generation = -1
        self._kinds: dict[tuple[str, str], Kind] = {}

    def kind(self, stated: Document) -> Kind:
        """The served kind that a policy's paramKind names; raises ConfigurationError if there is none."""
        if self._generation != self._registry.generation:
            self._generation = self._registry.generation
            self._kinds = {
                (kind.resource.api_version, kind.resource.kind): kind
                for kind in reversed(self._registry.all())
                if "get" in kind.verbs
            }
        api_version, name = stated.get("apiVersion", ""), stated.get("kind", "")
        found = self._kinds.get((api_version, name))
        if found is None:
            shown = f"{api_version if '/' in api_version else f'/{api_version}'}, Kind={name}"
            raise ConfigurationError(f"failed to find resource referenced by paramKind: '{shown}'")
        return found

    def collect(self, kind: Kind, ref: Document, namespace: str) -> list[Document]:
        """The parameters for a write in a namespace, perhaps none; raises ConfigurationError."""
        if kind.resource.namespaced:
            namespace = ref.get("namespace") or namespace
            if not namespace:
                raise ConfigurationError(
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                )
        elif ref.get("namespace"):
            raise ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        found = self._found(kind, ref, namespace if kind.resource.namespaced else "")
        if not found and ref.get("parameterNotFoundAction") == "Deny":
            raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
        return found

    def _found(self, kind: Kind, ref: Document, namespace: str) -> list[Document]:
        if name := ref.get("name"):
            entry = self._store.newest(key_of(kind, namespace, name))
            return [] if entry is None else [served_document(kind, entry)]
        selector = selector_from_document(ref.get("selector"))
        documents = (served_document(kind, each) for each in self._store.list(collection_of(kind), namespace).entries)
        return [each for each in documents if selector.matches(each["metadata"].get("labels") or {})]
