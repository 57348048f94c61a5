"""Validation of probes, lifecycle hooks and stop signals.

Upstream: pkg/apis/core/validation/validation.go
"""

from collections.abc import Callable

from pykubelet.api.field_errors import (
    FieldError,
    TypedString,
    each_invalid,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pykubelet.api.names import http_header_name_errors, port_name_errors, port_number_errors
from pykubelet.api.serializer import Document
from pykubelet.kinds.replicas import counts_errors
from pykubelet.kinds.rules import POSITIVE, OneOf, fields_errors

_PROBE_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")
_PROBE_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_SCHEMES = OneOf(("HTTP", "HTTPS"))
_PLAIN_SIGNALS = [
    "ABRT",
    "ALRM",
    "BUS",
    "CHLD",
    "CLD",
    "CONT",
    "FPE",
    "HUP",
    "ILL",
    "INT",
    "IO",
    "IOT",
    "KILL",
    "PIPE",
    "POLL",
    "PROF",
    "PWR",
    "QUIT",
    "RTMAX",
    "RTMIN",
    "SEGV",
    "STKFLT",
    "STOP",
    "SYS",
    "TERM",
    "TRAP",
    "TSTP",
    "TTIN",
    "TTOU",
    "URG",
    "USR1",
    "USR2",
    "VTALRM",
    "WINCH",
    "XCPU",
    "XFSZ",
]
_LINUX_SIGNALS = tuple(
    sorted(
        [
            *(f"SIG{name}" for name in _PLAIN_SIGNALS),
            *(f"SIGRTMIN+{number}" for number in range(1, 16)),
            *(f"SIGRTMAX-{number}" for number in range(1, 15)),
        ]
    )
)


def container_probes_errors(
    container: Document, grace_seconds: int | None, path: str, *, zero_sleep: bool
) -> list[FieldError]:
    """Validates the three probes of a container."""
    errors: list[FieldError] = []
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe, at = container.get(kind), f"{path}.{kind}"
        if probe is None:
            continue
        errors += _probe_errors(probe, grace_seconds, at, zero_sleep=zero_sleep)
        if kind == "readinessProbe":
            if (seconds := probe.get("terminationGracePeriodSeconds")) is not None:
                detail = "must not be set for readinessProbes"
                errors.append(invalid(f"{at}.terminationGracePeriodSeconds", seconds, detail))
        elif (threshold := probe.get("successThreshold", 0)) != 1:
            errors.append(invalid(f"{at}.successThreshold", threshold, "must be 1"))
    return errors


def _probe_errors(probe: Document, grace_seconds: int | None, path: str, *, zero_sleep: bool) -> list[FieldError]:
    errors = _handler_errors(probe, _PROBE_HANDLERS, _sleep_rule(grace_seconds, zero_sleep=zero_sleep), path)
    errors += counts_errors(probe, path, _PROBE_NUMBERS)
    return errors + fields_errors(probe, {"terminationGracePeriodSeconds": POSITIVE}, path)


def _handler_errors(
    document: Document, kinds: tuple[str, ...], sleep_rule: Callable[[Document, str], list[FieldError]], path: str
) -> list[FieldError]:
    rules = {
        "exec": _exec_errors,
        "httpGet": _http_get_errors,
        "tcpSocket": _port_field_errors,
        "grpc": _port_field_errors,
        "sleep": sleep_rule,
    }
    present = [kind for kind in kinds if kind in document]
    if not present:
        return [required(path, "must specify a handler type")]
    errors = rules[present[0]](document[present[0]], f"{path}.{present[0]}")
    return errors + [forbidden(f"{path}.{kind}", "may not specify more than 1 handler type") for kind in present[1:]]


def _exec_errors(action: Document, path: str) -> list[FieldError]:
    return [] if action.get("command") else [required(f"{path}.command")]


def _http_get_errors(action: Document, path: str) -> list[FieldError]:
    errors = [] if action.get("path") else [required(f"{path}.path")]
    errors += _port_field_errors(action, path)
    errors += _SCHEMES.errors(action.get("scheme", ""), f"{path}.scheme")
    for header in action.get("httpHeaders", ()):
        name = header.get("name", "")
        errors += each_invalid(f"{path}.httpHeaders", name, http_header_name_errors(name))
    return errors


def _port_field_errors(action: Document, path: str) -> list[FieldError]:
    port = action.get("port", 0)
    details = port_name_errors(port) if isinstance(port, str) else port_number_errors(port)
    return each_invalid(f"{path}.port", port, details)


def _sleep_rule(grace_seconds: int | None, *, zero_sleep: bool) -> Callable[[Document, str], list[FieldError]]:
    if zero_sleep:
        least = 0
        detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_seconds})"
    else:
        least = 1
        detail = (
            f"must be greater than 0 and less than terminationGracePeriodSeconds ({grace_seconds}). "
            "Enable AllowPodLifecycleSleepActionZeroValue feature gate for zero sleep."
        )

    def errors(action: Document, path: str) -> list[FieldError]:
        seconds = action.get("seconds", 0)
        fits = grace_seconds is None or least <= seconds <= grace_seconds
        return [] if fits else [invalid(path, seconds, detail)]

    return errors


def lifecycle_errors(
    lifecycle: Document, grace_seconds: int | None, os: Document | None, path: str, *, zero_sleep: bool
) -> list[FieldError]:
    """Validates the hooks and the stop signal of a container."""
    errors: list[FieldError] = []
    for hook in ("postStart", "preStop"):
        if hook in lifecycle:
            sleep_rule = _sleep_rule(grace_seconds, zero_sleep=zero_sleep)
            errors += _handler_errors(lifecycle[hook], _HOOK_HANDLERS, sleep_rule, f"{path}.{hook}")
    if "stopSignal" in lifecycle:
        errors += _stop_signal_errors(lifecycle["stopSignal"], os, f"{path}.stopSignal")
    return errors


def _stop_signal_errors(signal: str, os: Document | None, path: str) -> list[FieldError]:
    if os is None:
        return [forbidden(path, "may not be set for containers with empty `spec.os.name`")]
    supported = {"windows": ("SIGKILL", "SIGTERM"), "linux": _LINUX_SIGNALS}.get(os.get("name", ""))
    if supported is None or signal in supported:
        return []
    return [not_supported(path, TypedString(signal), supported)]
