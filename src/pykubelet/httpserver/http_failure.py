"""HttpFailure: a request without a response, explained in the words of Go's client."""

import os
import socket
import ssl

import aiohttp

# OpenSSL's errors when the server does not speak TLS.
_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"})


class HttpFailure(Exception):
    """A request without a response; `is_plain_http` if the server of an HTTPS request does not speak TLS."""

    def __init__(self, message: str, *, is_plain_http: bool = False) -> None:
        super().__init__(message)
        self.is_plain_http = is_plain_http


def request_failure(error: Exception) -> str:
    """Why a request got no response, in the words of Go's client. Never quotes headers, which may contain secrets."""
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
        if isinstance(cause, ssl.SSLError):
            not_tls = is_plain_http(error)
            return "http: server gave HTTP response to HTTPS client" if not_tls else f"tls: {cause.reason}"
        return dial_failure(error.host, error.port or 0, cause)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    if isinstance(error, aiohttp.ClientResponseError):
        return "net/http: HTTP/1.x transport connection broken: malformed HTTP response"
    if isinstance(error, OSError):
        return f"read: {errno_text(error)}"
    return "net/http: invalid request" if isinstance(error, ValueError) else type(error).__name__


def is_plain_http(error: Exception) -> bool:
    """Whether the server of an HTTPS request does not speak TLS."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return isinstance(cause, ssl.SSLError) and cause.reason in _NOT_TLS


def host_port(host: str, port: int) -> str:
    """Joins host and port as in a URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def dial_failure(host: str, port: int, error: OSError) -> str:
    """The text of Go's dial error."""
    if isinstance(error, socket.gaierror):
        return f"dial tcp: lookup {host}: no such host"
    return f"dial tcp {host_port(host, port)}: connect: {errno_text(error)}"


def errno_text(error: OSError) -> str:
    """The text of a system error in Go's spelling: it starts with a lower-case letter."""
    text = os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
    return text[:1].lower() + text[1:]
