"""An object as the page shows it: YAML without what is secret and without what nobody reads.

In: the document of an object. Out: its text. Secret values, and the annotation that repeats them, are not in it.
"""

from typing import Any

from pykubelet.api.wire import Document
from pykubelet.api.yaml_write import to_yaml

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_ORDER = ("apiVersion", "kind", "metadata", "spec", "data", "status")


def shown_yaml(document: Document) -> str:
    """The YAML of an object, in the order in which people read it."""
    shown = without_secrets(document)
    known = {name: shown[name] for name in _ORDER if name in shown}
    return to_yaml(known | {name: value for name, value in shown.items() if name not in known})


def without_secrets(document: Document) -> Document:
    """The document without secret values and without the records of who changed which field."""
    shown = dict(document)
    metadata = shown.get("metadata")
    if isinstance(metadata, dict):
        shown["metadata"] = _metadata(metadata, is_secret=_is_secret(document))
    if _is_secret(document):
        for name in ("data", "stringData"):
            if isinstance(shown.get(name), dict):
                shown[name] = {key: hidden(value) for key, value in shown[name].items()}
    return shown


def hidden(value: Any) -> str:
    """What stands in place of a secret value; how long it is tells little and helps to see that it is there."""
    return f"(hidden, {len(str(value))} characters)"


def _is_secret(document: Document) -> bool:
    return document.get("kind") == "Secret"


def _metadata(metadata: Document, *, is_secret: bool) -> Document:
    kept = {name: value for name, value in metadata.items() if name != "managedFields"}
    annotations = kept.get("annotations")
    if is_secret and isinstance(annotations, dict):
        kept["annotations"] = {name: value for name, value in annotations.items() if name != _LAST_APPLIED}
    return kept
