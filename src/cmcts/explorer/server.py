"""The page, live, on this machine alone.

Bound to the loopback address. Whoever has the token, which is in the address that is printed, may ask; a `Host` or an
`Origin` of another name is refused, so that no other page in the same browser can. Only POST plans, and what it is sent
is checked by name and type before it is used.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cmcts import json_settings
from cmcts.errors import InvalidInput, ModelError
from cmcts.explorer.laboratory import Force, Laboratory, PlanAgain
from cmcts.explorer.page import page, to_json

HOST = "127.0.0.1"
MAX_REQUEST_BYTES = 1 << 16


class LiveServer(ThreadingHTTPServer):
    """Serves one page and answers what it asks; `serve_forever` runs until it is interrupted."""

    daemon_threads = True  # a browser that keeps a connection open does not keep the server alive

    def __init__(self, data: dict[str, Any], laboratory: Laboratory, port: int = 0) -> None:
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            raise InvalidInput(f"cannot listen on port {port}: {error}") from None
        self.token = secrets.token_urlsafe(24)
        self.laboratory = laboratory
        self.content = page(data | {"live": {"token": self.token}}, live=True).content
        self.planning = threading.Lock()  # one at a time: a search may take all cores

    @property
    def names(self) -> tuple[str, str]:
        """What this server may be called, with its port."""
        return f"{HOST}:{self.server_port}", f"localhost:{self.server_port}"

    @property
    def address(self) -> str:
        """Where the page is, token included."""
        return f"http://{self.names[0]}/?token={self.token}"


class _Handler(BaseHTTPRequestHandler):
    server: LiveServer
    timeout = 60  # seconds without a word from the browser

    def do_GET(self) -> None:
        """The page, for whoever has the token."""
        asked = urlsplit(self.path)
        given = parse_qs(asked.query).get("token", [""])[0]
        if asked.path != "/":
            self._answer(HTTPStatus.NOT_FOUND, b"there is nothing here")
        elif self._allowed(given):
            self._answer(HTTPStatus.OK, self.server.content, "text/html; charset=utf-8")

    def do_POST(self) -> None:
        """Plan a step again, or force an action."""
        if not self._allowed(self.headers.get("X-Token", "")):
            return
        try:
            answer = self._planned(self.path, json_settings.parse(self._body()))
        except (InvalidInput, ModelError) as error:
            self._answer(HTTPStatus.BAD_REQUEST, to_json({"error": str(error)}).encode(), "application/json")
        else:
            self._answer(HTTPStatus.OK, to_json(answer).encode(), "application/json")

    def _planned(self, path: str, asked: Any) -> dict[str, Any]:
        with self.server.planning:
            if path == "/plan":
                return self.server.laboratory.plan_again(json_settings.convert(asked, PlanAgain))
            if path == "/force":
                return self.server.laboratory.force(json_settings.convert(asked, Force))
        raise InvalidInput(f"expected /plan or /force, got {path}")

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_REQUEST_BYTES:
            raise InvalidInput(f"expected a request of at most {MAX_REQUEST_BYTES} bytes, got {length or 'no length'}")
        return self.rfile.read(int(length))

    def _allowed(self, token: str) -> bool:
        """Whether the request comes from our own page; refuses it if not."""
        origin = self.headers.get("Origin")
        ours = self.headers.get("Host") in self.server.names
        ours = ours and (origin is None or origin.removeprefix("http://") in self.server.names)
        if ours and hmac.compare_digest(token.encode(), self.server.token.encode()):
            return True
        self._answer(HTTPStatus.FORBIDDEN, b"the address that `cmcts explore --serve` printed has a token: use that")
        return False

    def _answer(self, status: HTTPStatus, content: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: the terminal is for people."""
