"""An amount that may be given as a share of all there is: `100Mi`, `10%`.

Upstream: ThresholdValue in pkg/kubelet/eviction/api/types.go
"""

import struct
from dataclasses import dataclass

from pykubelet.api.quantity import Format, Quantity, parse_quantity


@dataclass(frozen=True, slots=True)
class QuantityOrShare:
    """A quantity, or else a share of the capacity."""

    quantity: Quantity | None = None
    share: float = 0.0

    @property
    def sign(self) -> int:
        """-1, 0 or 1."""
        return self.quantity.sign() if self.quantity is not None else (self.share > 0) - (self.share < 0)

    def of(self, capacity: int) -> Quantity:
        """How much that is, if this is all there is."""
        if self.quantity is not None:
            return self.quantity
        return Quantity(int(capacity * self.share), 0, Format.BINARY_SI)


def parse_quantity_or_share(text: str) -> QuantityOrShare:
    """What a text stands for; ValueError if nothing."""
    if text.endswith("%"):
        return QuantityOrShare(share=_single(float(text.rstrip("%")) / 100))
    return QuantityOrShare(parse_quantity(text))


def _single(number: float) -> float:
    """The number in upstream's precision; of a large disk that is a difference of some hundred bytes, which messages show."""
    narrowed: float = struct.unpack("f", struct.pack("f", number))[0]
    return narrowed
