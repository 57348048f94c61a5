"""Ids that must not be mixed up.

A static pod has two UIDs: its own, which the node works with, and that of its mirror, which the API server knows.
Most bugs of this field were confusions of the two, so they are two types.
"""

from typing import NewType

PodUid = NewType("PodUid", str)
"""UID of a pod as the node knows it; for a static pod, not its mirror's."""

MirrorUid = NewType("MirrorUid", str)
"""UID of a mirror pod, given by the API server."""

NO_MIRROR = MirrorUid("")
"""Stands for "static, but no mirror yet"."""


def full_name(name: str, namespace: str) -> str:
    """`name_namespace`: unambiguous, because neither half may hold an underscore."""
    return f"{name}_{namespace}"


def parse_full_name(text: str) -> tuple[str, str]:
    """Name and namespace of a full name; ValueError if it is none."""
    parts = text.split("_")
    if len(parts) != 2 or not all(parts):
        raise ValueError(f'failed to parse the pod full name "{text}"')
    return parts[0], parts[1]
