"""A webhook server as a process: answers each path of AdmissionReview over TLS as its name says.

Run as a program with a certificate file; it prints its port and writes each request it gets as a line of JSON.
"""

import base64
import json
import ssl
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import trustme


def _patch(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}


def _set(key: str, value: str, object_: dict[str, Any]) -> dict[str, Any]:
    data = {**(object_.get("data") or {}), key: value}
    return _patch({"op": "add", "path": "/data", "value": data})


def answer(path: str, request: dict[str, Any]) -> dict[str, Any]:
    """The response of a path, without its uid."""
    object_ = request.get("object") or {}
    match path:
        case "/deny":
            return {"allowed": False, "status": {"message": "not here", "reason": "Wrong", "code": 418}}
        case "/deny-silently":
            return {"allowed": False}
        case "/warn":
            return {"allowed": True, "warnings": ["mind the gap"], "auditAnnotations": {"seen": "yes"}}
        case "/first":
            data = object_.get("data") or {}
            return {"allowed": True, **_set("first", "again" if "first" in data else "once", object_)}
        case "/second":
            return {"allowed": True, **_set("second", "yes", object_)}
        case "/container":
            return {
                "allowed": True,
                **_patch({"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "side:1"}}),
            }
        case "/break":
            return {"allowed": True, **_patch({"op": "add", "path": "/spec/containers", "value": []})}
        case "/wrong-uid":
            return {"allowed": True, "uid": "other"}
        case "/slow":
            threading.Event().wait(5)
    return {"allowed": True}


class _Handler(BaseHTTPRequestHandler):
    log: Path

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0]
        with self.log.open("a") as lines:
            lines.write(json.dumps({"path": self.path, "host": self.headers["Host"], **review["request"]}) + "\n")
        request = review["request"]
        body = {**review, "response": {"uid": request["uid"], **answer(path, request)}}
        body.pop("request")
        text = b"oops" if path == "/fail" else b"not json" if path == "/garbage" else json.dumps(body).encode()
        self.send_response({"/fail": 500, "/redirect": 307}.get(path, 200))
        if path == "/redirect":
            self.send_header("Location", "/ok")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Prints nothing."""


def _serve(certificate: Path, log: Path, host: str) -> None:
    _Handler.log = log
    server = ThreadingHTTPServer((host, 0), _Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()


class WebhookServer:
    """The process, and its certificate authority."""

    def __init__(self, folder: Path, *names: str, host: str = "127.0.0.1") -> None:
        authority = trustme.CA()
        certificate = folder / "webhook.pem"
        authority.issue_cert("127.0.0.1", *names).private_key_and_cert_chain_pem.write_to_path(str(certificate))
        self._log = folder / "requests.log"
        self._log.touch()
        self._read = 0
        self.ca_bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(certificate), str(self._log), host], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def client(self, path: str) -> dict[str, Any]:
        """The clientConfig of a path."""
        return {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": self.ca_bundle}

    def requests(self) -> list[dict[str, Any]]:
        """The requests since the last call."""
        # The last line may be in the making.
        lines = self._log.read_text().split("\n")[self._read : -1]
        self._read += len(lines)
        return [json.loads(line) for line in lines]

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(10)
        assert self._process.stdout is not None
        self._process.stdout.close()


if __name__ == "__main__":
    threading.current_thread().name = "webhooks"
    _serve(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
