"""UIDs and name suffixes, random in production and counted in tests."""

import re

from pykubelet.aio.ids import LETTERS, SUFFIX_LENGTH, RandomIds
from pykubelet.testing.local_api import CountingIds


def test_random_ids_have_the_format_of_kubernetes_and_differ() -> None:
    """UIDs are of version 4; suffixes use only the letters that cannot spell words."""
    ids = RandomIds()
    uids, suffixes = {ids.uid() for _ in range(100)}, {ids.suffix() for _ in range(100)}
    assert len(uids) == 100
    assert len(suffixes) > 95
    assert all(
        re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", uid) for uid in uids
    )
    assert all(re.fullmatch(f"[{LETTERS}]{{{SUFFIX_LENGTH}}}", suffix) for suffix in suffixes)


def test_counted_ids_are_the_same_in_every_run() -> None:
    one, two = CountingIds(), CountingIds()
    assert [one.uid(), one.suffix(), one.suffix()] == [two.uid(), two.suffix(), two.suffix()]
    assert one.suffix() == "bbbbg"
