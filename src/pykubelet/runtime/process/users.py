"""Whom a container runs as.

Root runs it as its pod says, else as root. Anybody else can run it only as itself: a pod that asks for another user is
refused, never run as somebody it did not ask for.

Upstream: containerd's WithUser, determineEffectiveSecurityContext in pkg/securitycontext/util.go. On purpose otherwise: a
user without a group of its own gets the group of its number, not root's; the machine's lists of groups give no rights.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pykubelet.api.generated.core import PodSecurityContext, SecurityContext
from pykubelet.runtime.process.records import User


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What the machine knows of a user."""

    name: str
    gid: int
    home: str


class RefusedUser(ValueError):
    """The container cannot run as it should; the message says why."""


def user_of(
    pod: PodSecurityContext | None,
    container: SecurityContext | None,
    *,
    me: User,
    account: Callable[[int], Account | None],
) -> User:
    """Whom to run as, `me` being who runs it."""
    uid = _setting("run_as_user", container, pod)
    gid = _setting("run_as_group", container, pod)
    if me.uid != 0:
        _check_is_me(uid, gid, me)
        return me
    if uid is None:
        uid = me.uid
    if gid is None:
        known = account(uid)
        gid = known.gid if known is not None else uid
    groups = dict.fromkeys(pod.supplemental_groups if pod is not None else ())
    if pod is not None and pod.fs_group is not None:
        groups[pod.fs_group] = None
    return User(uid=uid, gid=gid, groups=tuple(groups))


def _check_is_me(uid: int | None, gid: int | None, me: User) -> None:
    if uid not in {None, me.uid}:
        raise RefusedUser(f"runAsUser is {uid}, but this node is no root and runs containers as user {me.uid} only")
    if gid not in {None, me.gid}:
        raise RefusedUser(f"runAsGroup is {gid}, but this node is no root and runs containers as group {me.gid} only")


def _setting(name: str, *contexts: SecurityContext | PodSecurityContext | None) -> int | None:
    for context in contexts:
        value: int | None = getattr(context, name, None)
        if value is not None:
            return value
    return None
