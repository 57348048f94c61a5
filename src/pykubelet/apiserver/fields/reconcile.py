"""Stored owners under a schema that has changed: what became one value has one owner now.

Upstream: structured-merge-diff/typed/reconcile_schema.go
"""

from pykubelet.apiserver.fields.field_sets import LEAF, FieldTree
from pykubelet.apiserver.fields.schema_types import FieldType


def reconciled(tree: FieldTree, type: FieldType) -> FieldTree:
    """The same fields, but lists and maps that are atomic by now without what is below them."""
    if type.kind == "any":
        return tree
    result: FieldTree = {}
    for step, below in tree.items():
        inner = type.below(step)
        result[step] = LEAF if inner.is_leaf and inner.kind != "scalar" else reconciled(below, inner)
    return result
