"""Durations on the command line, as Kubernetes' own programs take them: 30s, 1m30s, 2h."""

import re

import click

_FORM = re.compile(r"(?=\d)(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?|0")


def whole_seconds(_context: click.Context | None, _option: click.Parameter | None, text: str) -> int:
    """How many seconds a duration has; for the `callback` of an option."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a duration such as 30s or 1m30s")
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds
