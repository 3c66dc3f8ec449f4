"""Commands with the answers of the REST API that they rest on, kept for tests of later command lines.

``REST_RECORDS=DIRECTORY pytest tests/service/test_recorded_rest.py`` writes them with a real service: a file for each
command, as :data:`COMMANDS` names them.
"""

from __future__ import annotations

import http.client
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

RECORDED = Path(__file__).parents[1] / "service" / "recorded-rest"
NEW_FIELD = "newInTheNextVersion"
_MAPPINGS = frozenset(
    {
        *("annotations", "changes", "defaultRequest", "defaults", "document", "free", "heldBy", "heldByStartingPods"),
        *("images", "labels", "largestNode", "namespaces", "need", "numbers", "perPod", "requests", "resources"),
        *("restarts", "summary"),
    }
)
"""Fields whose keys are names, and values of any form."""
_LONG = 120.0

COMMANDS: dict[str, str] = {
    "login": "login {url} --token-stdin",
    "get-quotas": "get quotas -n {namespace}",
    "get-quotas-json": "get quotas -o json -n {namespace}",
    "get-namespaces": "get namespaces {namespace} -o json",
    "describe-namespace": "describe namespace {namespace}",
    "history": "history b -n {namespace}",
    "history-revision": "history b --revision 1 -n {namespace}",
    "history-diff": "history b --diff 1 -n {namespace}",
    "fit": "fit -f - -n {namespace}",
    "fit-waiting": "fit -n {namespace}",
}
"""Name of a record -> a command. The documents of ``-f -`` are those of the test."""


class Asked(NamedTuple):
    """A request."""

    method: str
    target: str
    """Path and query, the parameters sorted."""
    headers: Mapping[str, str]
    body: bytes


class Answered(NamedTuple):
    """The answer to a request."""

    status: int
    kind: str
    """The media type."""
    body: str

    def renewed(self) -> Answered:
        """Return the answer of a later version: each object in it has one more field."""
        if self.kind.startswith("text/event-stream"):
            return self._replace(body=re.sub(r"(?m)^data: ?(\{.*)$", _renewed_event, self.body))
        return self._replace(body=json.dumps(_renewed(json.loads(self.body))))


def _renewed_event(found: re.Match[str]) -> str:
    return f"data: {json.dumps(_renewed(json.loads(found[1])))}"


def _renewed(value: Any) -> Any:
    if isinstance(value, list):
        return [_renewed(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: item if key in _MAPPINGS else _renewed(item) for key, item in value.items()}
    return {**kept, NEW_FIELD: {"x": 1}}


@contextmanager
def answering(answer: Callable[[Asked], Answered]) -> Iterator[str]:
    """Serve HTTP with a function; the URL."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path, _, query = self.path.partition("?")
            target = f"{path}?{urlencode(sorted(parse_qsl(query)))}" if query else path
            found = answer(Asked(self.command, target, dict(self.headers.items()), body))
            text = found.body.encode()
            self.send_response(found.status)
            self.send_header("Content-Type", found.kind)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_DELETE = _answer

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def forwarded(url: str) -> Callable[[Asked], Answered]:
    """Return a function that sends requests on to a service."""
    where = urlsplit(url).netloc

    def forward(asked: Asked) -> Answered:
        connection = http.client.HTTPConnection(where, timeout=_LONG)
        headers = {name: value for name, value in asked.headers.items() if name.lower() != "host"}
        connection.request(asked.method, asked.target, asked.body, headers)
        answer = connection.getresponse()
        found = Answered(answer.status, answer.headers.get("Content-Type", ""), answer.read().decode())
        connection.close()
        return found

    return forward


@dataclass
class Record:
    """A command, what it printed, and the answers that it got."""

    name: str
    arguments: list[str]
    code: int
    out: str
    err: str
    stdin: str = ""
    exchanges: list[tuple[str, str, Answered]] = field(default_factory=list)

    def write(self, directory: Path) -> None:
        """Write the record to its file."""
        value = {
            "arguments": self.arguments,
            "stdin": self.stdin,
            "code": self.code,
            "out": self.out,
            "err": self.err,
            "exchanges": [
                {"method": method, "target": target, "status": answer.status, "kind": answer.kind, "body": answer.body}
                for method, target, answer in self.exchanges
            ],
        }
        (directory / f"{self.name}.json").write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> Record:
        """Read a record."""
        value = json.loads(path.read_text())
        exchanges = [
            (item["method"], item["target"], Answered(item["status"], item["kind"], item["body"]))
            for item in value.pop("exchanges")
        ]
        return cls(path.stem, exchanges=exchanges, **value)

    def answers(self) -> Callable[[Asked], Answered]:
        """Return a function that answers as the service did; each request of one form gets the next answer."""
        left = list(self.exchanges)

        def answer(asked: Asked) -> Answered:
            of_form = [item for item in left if item[:2] == (asked.method, asked.target)]
            if not of_form:
                text = {"error": "NotRecorded", "message": f"{asked.method} {asked.target} was not asked before"}
                return Answered(404, "application/json", json.dumps(text))
            if len(of_form) > 1:
                left.remove(of_form[0])
            return of_form[0][2].renewed()

        return answer


def comparable(text: str) -> str:
    """Return output without what differs from one run to the next: times, ages, widths of columns and addresses."""
    text = re.sub(r"http://127\.0\.0\.1:\d+", "URL", text)
    text = re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d)?(?:Z| UTC)?", "TIME", text)
    text = re.sub(r"\b(?:\d+d)?(?:\d+h)?(?:\d+m)?(?:\d+s)?\b(?<=[dhms])", "AGE", text)
    return re.sub(r"[ ─]+", " ", text)
