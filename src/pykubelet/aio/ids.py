"""Random identifiers: UIDs, suffixes of generated names, secrets.

The source of randomness is injected as `Ids`, so that tests can fix it.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/uuid/uuid.go, staging/src/k8s.io/apimachinery/pkg/util/rand/rand.go,
staging/src/k8s.io/apiserver/pkg/storage/names/generate.go
"""

import random  # noqa: TID251  the only module that may
import secrets
import uuid
from typing import Protocol

# No vowels and no look-alikes: a suffix spells no word and can be read aloud.
LETTERS = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5


class Ids(Protocol):
    """Supplies a new identifier at each call."""

    def uid(self) -> str:
        """A UID for an object."""

    def suffix(self) -> str:
        """Five characters that complete `metadata.generateName`."""


class RandomIds:
    """Identifiers from the operating system's randomness."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def uid(self) -> str:
        return str(uuid.uuid4())

    def suffix(self) -> str:
        return "".join(self._random.choices(LETTERS, k=SUFFIX_LENGTH))


class OneUid:
    """Identifiers with always the same UID, for an object that is made repeatedly before it is stored."""

    def __init__(self, ids: Ids) -> None:
        self._uid, self._ids = ids.uid(), ids

    def uid(self) -> str:
        return self._uid

    def suffix(self) -> str:
        return self._ids.suffix()


def new_secret() -> str:
    """A random token that is safe in URLs and cookies."""
    return secrets.token_urlsafe(32)


def random_text(letters: str, count: int) -> str:
    """An unpredictable text of this many letters, for secrets with a prescribed form."""
    return "".join(secrets.choice(letters) for _ in range(count))


def random_bits(count: int) -> int:
    """An unpredictable number of this many bits."""
    return secrets.randbits(count)
