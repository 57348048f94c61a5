"""Names that nobody has yet: UIDs, and the letters that make a generated name unique.

The one place of such randomness, handed in where it is needed, so that a test can fix it.

Upstream: k8s.io/apimachinery/pkg/util/uuid, pkg/util/rand (String), k8s.io/apiserver/pkg/storage/names
"""

import random  # noqa: TID251  this is the door
import secrets
import uuid
from typing import Protocol

# No vowels and no look-alikes: what comes out spells no word and reads well on the telephone.
LETTERS = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5


class Ids(Protocol):
    """Gives a new value at each call."""

    def uid(self) -> str:
        """A UID for an object."""

    def suffix(self) -> str:
        """Five letters to put behind `metadata.generateName`."""


class RandomIds:
    """Random ones."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def uid(self) -> str:
        return str(uuid.uuid4())

    def suffix(self) -> str:
        return "".join(self._random.choices(LETTERS, k=SUFFIX_LENGTH))


def new_secret() -> str:
    """A word that nobody can guess, made of what may stand in a URL and in a cookie."""
    return secrets.token_urlsafe(32)
