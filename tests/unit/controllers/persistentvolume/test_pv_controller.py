"""The default class of claims."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.generated.storage import StorageClass
from pykubelet.api.serializer import to_document
from pykubelet.apiserver.admission.storage import default_class
from pykubelet.controllers.persistentvolume.pv_controller import default_class_name


def storage_class(name: str, second: int, *, is_default: bool = True) -> StorageClass:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true" if is_default else "false"}
    created = f"2026-01-01T00:00:0{second}Z"
    return StorageClass(metadata=ObjectMeta(name=name, annotations=annotations, creation_timestamp=created))


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ([], ""),
        ([storage_class("a", 1, is_default=False)], ""),
        ([storage_class("a", 1), storage_class("b", 2), storage_class("c", 3, is_default=False)], "b"),
        ([storage_class("b", 2), storage_class("a", 1)], "b"),
        ([storage_class("b", 1), storage_class("a", 1), storage_class("c", 1)], "a"),
    ],
    ids=["none", "unmarked", "newest", "in any order", "equally old"],
)
def test_default_class_is_the_newest_that_is_marked(classes: list[StorageClass], expected: str) -> None:
    assert default_class_name(classes) == expected


@given(st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.integers(0, 2), st.booleans())))
def test_default_class_of_an_older_claim_is_that_of_a_new_one(made: dict[str, tuple[int, bool]]) -> None:
    """The controller gives claims that were created before there was a default the class that admission gives others."""
    classes = [storage_class(name, second, is_default=marked) for name, (second, marked) in made.items()]
    assert default_class_name(classes) == default_class([to_document(one) for one in classes])
