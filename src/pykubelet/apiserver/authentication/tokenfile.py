"""Reads the file of static tokens: `token,user,uid,"group1,group2"` per line.

Only digests of the tokens are kept. Empty and repeated tokens, which upstream only warns about, are errors.

Upstream: staging/src/k8s.io/apiserver/pkg/authentication/token/tokenfile/tokenfile.go
"""

import csv
from hashlib import sha256

from pykubelet.apiserver.request import UserInfo


class TokenFileError(ValueError):
    """An invalid line; the message names file and line, never a token."""


def digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


def read_token_file(text: str, name: str) -> dict[bytes, UserInfo]:
    """The users by the digests of their tokens; `name` is the file's name for messages."""
    users: dict[bytes, UserInfo] = {}
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    line = 1
    try:
        for record in reader:
            if record:
                key, user = _user(record, f"{name}:{line}")
                if key in users:
                    raise TokenFileError(f"{name}:{line}: this token appears twice in the file")
                users[key] = user
            line = reader.line_num + 1
    except csv.Error as error:
        raise TokenFileError(f"{name}:{line}: {error}") from error
    return users


def _user(record: list[str], place: str) -> tuple[bytes, UserInfo]:
    if len(record) < 3:
        raise TokenFileError(
            f"{place}: a line must have at least 3 columns (token, user name, user uid), found {len(record)}"
        )
    token, user, uid = record[:3]
    if not token:
        raise TokenFileError(f"{place}: the token is empty")
    if not user:
        raise TokenFileError(f"{place}: the user name is empty")
    groups = tuple(record[3].split(",")) if len(record) > 3 else ()
    return digest(token), UserInfo(user, groups, uid)
