"""LabelIndex and SelectorIndex give the same answers as a scan of all objects."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import Pod
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.client.indexer import LabelIndex, SelectorIndex, has_labels

LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"))
NAMES = st.tuples(st.sampled_from(["n1", "n2"]), st.sampled_from("pqr"))
CHANGES = st.lists(st.tuples(NAMES, st.one_of(st.none(), LABELS)), max_size=20)


def pod(namespace: str, name: str, labels: dict[str, str]) -> Pod:
    return Pod(metadata=ObjectMeta(namespace=namespace, name=name, labels=labels))


@settings(max_examples=150)
@given(CHANGES, LABELS)
def test_labelled_objects_are_found(
    changes: list[tuple[tuple[str, str], dict[str, str] | None]], asked: dict[str, str]
) -> None:
    """After any changes; None stands for a removal."""
    index: LabelIndex[Pod] = LabelIndex()
    known: dict[tuple[str, str], dict[str, str]] = {}
    for (namespace, name), labels in changes:
        if labels is None:
            index.remove(pod(namespace, name, {}))
            known.pop((namespace, name), None)
        else:
            index.put(pod(namespace, name, labels))
            known[namespace, name] = labels
    for place in ("n1", "n2"):
        found = [one.metadata.name for one in index.labelled(place, asked)]
        assert found == sorted(
            name for (where, name), labels in known.items() if where == place and has_labels(labels, asked)
        )
    assert all((index.get(f"{place}/{name}") is not None) == ((place, name) in known) for place, name in known)


@settings(max_examples=150)
@given(CHANGES, LABELS)
def test_candidates_include_every_selector_that_matches(
    changes: list[tuple[tuple[str, str], dict[str, str] | None]], labels: dict[str, str]
) -> None:
    """No candidate comes twice, and each has an empty selector or shares a label with the object."""
    index = SelectorIndex()
    known: dict[str, dict[str, str]] = {}
    for (namespace, name), asked in changes:
        key = f"{namespace}/{name}"
        if asked is None:
            index.remove(key)
            known.pop(key, None)
        else:
            index.put(key, asked)
            known[key] = asked
    found = list(index.candidates(pod("n1", "x", labels)))
    assert len(found) == len(set(found))
    assert set(found) >= {key for key, asked in known.items() if key.startswith("n1/") and has_labels(labels, asked)}
    assert all(not known[key] or known[key].items() & labels.items() for key in found)


def test_selecting_objects_are_stored_under_their_rarest_label() -> None:
    """An object with a label that many select is compared with few of them."""
    index = SelectorIndex()
    for number in range(100):
        index.put(f"n1/{number}", {"app": "web", "number": str(number)})
    found = [*index.candidates(pod("n1", "x", {"app": "web", "number": "70"}))]
    assert "n1/70" in found
    assert len(found) < 5
