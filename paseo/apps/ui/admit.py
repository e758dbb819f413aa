"""Who may ask, and for which files: the door before the page, as one ASGI middleware and one function for
paths.

Gradio checks an upload's path only where the payload says that it is one, answers any Host, and lets pages
of other
origins send requests. Here, whatever the event and with or without `meta`:

    Host      127.0.0.1, localhost, [::1], the address listened on, and names given with --allow-host
    Origin    none, or the page's own
    path      resolved, below the upload folder or one of the samples; anything else is refused alike, there
    or not
    size      of uploads and of other requests; number of uploads
"""

from __future__ import annotations

import ipaddress
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from paseo.apps.ui.form import MAX_MEGABYTES
from paseo.errors import BadInput

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_FILES = 8  # in one upload
MAX_KEPT = 4000  # files in the upload folder before new ones are refused; a painted stroke makes three
MAX_KEPT_MEGABYTES = 1000
MAX_UPLOADS_PER_MINUTE = 600  # opening the mask's editor makes fifty, and each stroke three
MAX_MESSAGE_MEGABYTES = 4  # of a request that is no upload
LOOPBACK = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("0.0.0.0", "::", "")
CLOSED = (
    "proxy=",
    "process_recording",
    "vibe-",
    "run-history",
    "runs",
    "deep_link",
    "dev/",
    "mcp",
)  # never needed
MONITORING = "/monitoring"
HEADERS = (
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"same-origin"),
)


class Refused(Exception):
    """A request that is not answered, with its HTTP status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def admitted(path: object, root: Path, samples: frozenset[Path] = frozenset()) -> Path:
    """The resolved path of a file that a visitor may name; the same BadInput for all others, whether they
    exist or not.
    """
    refusal = BadInput("This picture was not uploaded here. Drop it on the page, or click on a sample.")
    if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
        raise refusal
    try:
        found = Path(path).resolve()
    except (OSError, ValueError, RuntimeError):  # a loop of links, a name that is too long
        raise refusal from None
    if found in samples or root.resolve() in found.parents:
        return found
    raise refusal


@dataclass(frozen=True)
class Hosts:
    """The names under which the page answers."""

    bound: str = "127.0.0.1"
    more: tuple[str, ...] = ()
    shared: bool = False  # through Gradio's tunnel

    def admits(self, authority: str) -> bool:
        """`authority` is "host" or "host:port", as in a Host header."""
        name = host_name(authority)
        if name in LOOPBACK or name in {n.lower() for n in self.more}:
            return True
        if self.shared and name.endswith(".gradio.live"):
            return True
        if self.bound in EVERYWHERE:  # a number cannot be rebound to another machine, a name can
            return is_address(name)
        return name == host_name(self.bound if ":" not in self.bound else f"[{self.bound}]")

    def same_origin(self, origin: str, authority: str) -> bool:
        """Whether a page of `origin` is this page, which was asked for as `authority`."""
        scheme, _, named = origin.lower().partition("://")
        name = host_name(named)
        if scheme not in ("http", "https") or not name:
            return False  # "null", of a file or a sandboxed frame
        if name in {n.lower() for n in self.more}:  # a proxy of ours, which may change port and scheme
            return True
        encrypted = self.shared and name.endswith(".gradio.live")  # the page itself never is
        return named == authority.lower() and scheme == ("https" if encrypted else "http")


_AUTHORITY = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")


def host_name(authority: str) -> str:
    """Without the port and without the brackets of an IPv6 address; empty for what is none."""
    if not _AUTHORITY.fullmatch(authority):  # "evil.example@localhost", a path, a list
        return ""
    try:
        return (urlsplit(f"//{authority}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@dataclass
class Gate:
    """The middleware."""

    app: App
    hosts: Hosts
    root: Path  # the upload folder
    samples: frozenset[Path] = frozenset()
    uploads: list[float] = field(default_factory=list)  # when they came, of the last minute

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # the page has no web sockets
            await send({"type": "websocket.close", "code": 1008})
            return
        try:
            receive = await self.checked(scope, receive)
        except Refused as refusal:
            await _answer(send, refusal)
            return
        await self.app(scope, receive, _guarded(send))

    async def checked(self, scope: Scope, receive: Receive) -> Receive:
        """Raise `Refused`, or give back what the page is to read."""
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        self.check_origin(headers)
        self.check_place(unquote(scope["path"]))
        if scope["method"] in ("GET", "HEAD", "OPTIONS"):
            return receive
        multipart = headers.get(b"content-type", "").lower().startswith("multipart/")
        limit = (MAX_MEGABYTES << 20) + (1 << 16) if multipart else MAX_MESSAGE_MEGABYTES << 20
        body = await _body(receive, limit, headers.get(b"content-length", ""))
        if multipart:
            self.check_upload(body)
            return _replay(body, receive)
        return _replay(self.check_message(body), receive)

    def check_origin(self, headers: dict[bytes, str]) -> None:
        authority = headers.get(b"host", "")
        forwarded = headers.get(b"x-forwarded-host", authority)  # gradio writes it into its page
        if not (self.hosts.admits(authority) and self.hosts.admits(forwarded)):
            raise Refused(
                421,
                "This page does not answer under that name. `paseo ui --allow-host NAME` lets it.",
            )
        origin = headers.get(b"origin")
        foreign = origin is not None and not self.hosts.same_origin(origin, authority)
        if foreign or (
            headers.get(b"sec-fetch-site") == "cross-site" and headers.get(b"sec-fetch-mode") != "navigate"
        ):
            raise Refused(403, "Requests of other pages are not answered.")

    def check_place(self, path: str) -> None:
        """Files that may be read, and parts of gradio that are closed."""
        inner = path.removeprefix("/gradio_api").lstrip("/")
        if inner.startswith(CLOSED) or path.startswith(MONITORING):
            raise Refused(404, "Not found.")
        for prefix in ("file=", "file/"):
            if inner.startswith(prefix):
                name = inner.removeprefix(prefix)
                _only_admitted(name if prefix == "file=" else f"/{name}", self.root, self.samples)

    def check_upload(self, body: bytes) -> None:
        if body.count(b"filename=") > MAX_FILES:
            raise Refused(413, f"At most {MAX_FILES} files at once.")
        now = time.monotonic()
        self.uploads[:] = [t for t in self.uploads if now - t < 60]
        sizes = [p.stat().st_size for p in self.root.rglob("*") if p.is_file()]
        full = len(sizes) >= MAX_KEPT or sum(sizes) + len(body) > MAX_KEPT_MEGABYTES << 20
        if full or len(self.uploads) >= MAX_UPLOADS_PER_MINUTE:
            raise Refused(429, "Too many uploads. Wait, or start the page again.")
        self.uploads.append(now)

    def check_message(self, body: bytes) -> bytes:
        """JSON in which every file is one that may be named; addresses of other machines are left out."""
        if not body.strip():
            return body
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            raise Refused(400, "This is not JSON.") from None
        for entry in _objects(message):
            if "path" in entry and entry["path"] is not None:
                entry["path"] = str(_only_admitted(entry["path"], self.root, self.samples))
                entry["meta"] = {"_type": "gradio.FileData"}  # so that gradio checks it as well
            if not str(entry.get("url") or "").startswith("data:"):
                entry.pop("url", None)
        return json.dumps(message).encode()


def _only_admitted(path: object, root: Path, samples: frozenset[Path]) -> Path:
    try:
        return admitted(path, root, samples)
    except BadInput as error:
        raise Refused(403, str(error)) from None


def _objects(value: object) -> Iterator[dict[str, object]]:
    """Every object in a JSON value, without recursion."""
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            yield here
            waiting += here.values()
        elif isinstance(here, list):
            waiting += here


async def _body(receive: Receive, limit: int, announced: str) -> bytes:
    if announced.isdecimal() and int(announced) > limit:
        raise Refused(413, f"At most {limit >> 20} MB at once.")
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "Not complete.")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise Refused(413, f"At most {limit >> 20} MB at once.")
        if not message.get("more_body", False):
            return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once more, then whatever comes next."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


def _guarded(send: Send) -> Send:
    """Every answer says that no other page may frame it."""

    async def outward(message: Message) -> None:
        if message["type"] == "http.response.start":
            ours = {name for name, _ in HEADERS}
            kept = [(n, v) for n, v in message.get("headers", []) if n.lower() not in ours]
            message = {**message, "headers": [*kept, *HEADERS]}
        await send(message)

    return outward


async def _answer(send: Send, refusal: Refused) -> None:
    text = str(refusal).encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(text)).encode())]
    await _guarded(send)({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
