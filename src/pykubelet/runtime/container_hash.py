"""Tells whether a container was made from the present spec: a hash of name and image, nothing else.

Equal to upstream's, so that a node which changes its agent keeps its containers. Pure.
Upstream: HashContainer in pkg/kubelet/container/helpers.go.
"""

from functools import lru_cache

from pykubelet.api.generated.core import Container, EphemeralContainer
from pykubelet.api.validation.field_errors import go_json

_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193


def container_hash(container: Container | EphemeralContainer) -> str:
    """The hash, in hexadecimal."""
    return _hash(container.name, container.image)


@lru_cache(maxsize=4096)
def _hash(name: str, image: str) -> str:
    text = go_json({"image": image, "name": name})
    # Upstream hashes the printed form of the bytes, not the bytes.
    printed = f"([]uint8)[{' '.join(map(str, text.encode()))}]"
    value = _FNV_OFFSET
    for byte in printed.encode():
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return f"{value:x}"
