"""Trees of fields for tests: made at random, and as plain sets of paths."""

from typing import Any

from hypothesis import strategies as st

from pykubelet.apiserver.fieldmanager.fieldpath import LEAF, SELF, FieldTree, in_order, paths

STEPS = st.sampled_from(["f:a", "f:b", "f:c", 'k:{"name":"x"}', 'k:{"name":"y"}', 'v:"v"', "v:10", "v:9", "i:0"])


def _node(children: dict[str, FieldTree], *, is_member: bool) -> FieldTree:
    return {SELF: LEAF, **in_order(children)} if is_member else in_order(children)


def trees() -> st.SearchStrategy[FieldTree]:
    below = st.recursive(
        st.just(LEAF),
        lambda inner: st.builds(
            lambda children, is_member: _node(children, is_member=is_member),
            st.dictionaries(STEPS, inner, min_size=1, max_size=3),
            st.booleans(),
        ),
        max_leaves=8,
    )
    return st.dictionaries(STEPS, below, max_size=4).map(in_order)


def flat(tree: FieldTree) -> set[tuple[str, ...]]:
    return set(paths(tree))


def is_in_order(tree: Any) -> bool:
    return list(tree) == list(in_order(tree)) and all(map(is_in_order, tree.values()))
