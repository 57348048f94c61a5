"""A short name for a pod template: equal templates, equal hash.

Upstream hashes the Go object, so its hashes change with its types; ours is of the JSON text with sorted keys.
"""

import json

from pykubelet.api import wire
from pykubelet.api.generated.core import PodTemplateSpec

# No vowels and no look-alikes: a hash never spells a word.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193


def template_hash(template: PodTemplateSpec, collision_count: int | None = None) -> str:
    """The hash of a template; another `collision_count` gives another hash, for when two templates collide."""
    text = json.dumps(wire.to_document(template), sort_keys=True, separators=(",", ":")).encode()
    if collision_count is not None:
        text += collision_count.to_bytes(8, "little")
    value = _FNV_OFFSET
    for byte in text:
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return spelled(value)


def spelled(value: int) -> str:
    """A number in letters that are safe in names."""
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(value))
