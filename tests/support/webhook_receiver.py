"""A web server that receives webhooks, and answers as a robot of a chat does."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

PATIENCE = 120.0


class Post(NamedTuple):
    """A received request: path, query, and body as JSON."""

    path: str
    query: dict[str, str]
    body: Any


class Receiver:
    """The requests so far. ``answers``: path -> status, body and headers of the next answers; then 200 and ``ok``."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.posts: list[Post] = []
        self.answers: dict[str, list[tuple[int, str, dict[str, str]]]] = {}
        self.always: dict[str, str] = {}
        self.hanging: set[str] = set()
        self.released = threading.Event()

    def at(self, path: str) -> list[Post]:
        """Return the requests to a path."""
        return [post for post in self.posts if post.path == path]

    def until(self, path: str, count: int = 1, holds: Callable[[Post], bool] = lambda post: True) -> list[Post]:
        """Return the requests to a path that satisfy a condition, once there are so many."""
        end = time.monotonic() + PATIENCE
        while len(found := [post for post in self.at(path) if holds(post)]) < count:
            assert time.monotonic() < end, f"{len(found)} of {count} requests to {path}: {self.posts}"
            time.sleep(0.05)
        return found


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Yield a receiver until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            target = urlsplit(self.path)
            body = self.rfile.read(int(self.headers["Content-Length"]))
            query = {name: values[0] for name, values in parse_qs(target.query).items()}
            receiver.posts.append(Post(target.path, query, json.loads(body)))
            if target.path in receiver.hanging:
                receiver.released.wait(PATIENCE)
            waiting = receiver.answers.get(target.path) or []
            default = (200, receiver.always.get(target.path, "ok"), {})
            status, text, headers = waiting.pop(0) if waiting else default
            self.send_response(status)
            for name, value in {"Content-Length": str(len(text.encode())), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())

        # A redirect that is followed would be a GET.
        do_GET = do_POST

        def log_message(self, *arguments: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver = Receiver(server.server_address[1])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield receiver
    finally:
        receiver.released.set()
        server.shutdown()
        server.server_close()
