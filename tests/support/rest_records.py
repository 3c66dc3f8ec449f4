"""Commands with the answers of the REST API that they rest on, kept for tests of later command lines.

``REST_RECORDS=DIRECTORY pytest tests/service/test_recorded_rest.py`` writes them with a real service: a file for each
command, as :data:`COMMANDS` names them.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
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
        *(
            "addresses",
            "after",
            "annotations",
            "before",
            "changes",
            "conditions",
            "taints",
            "defaultRequest",
            "defaults",
            "document",
            "free",
            "from",
        ),
        *("gpuType", "heldBy", "heldByStartingPods", "images", "labels", "largestNode", "namespaces", "need"),
        *("numbers", "object", "perPod", "requests", "resources", "restarts", "summary", "to", "working"),
    }
)
"""Fields whose keys are names, or whose values are recorded unchanged."""
_LONG = 120.0

COMMANDS: dict[str, str] = {
    "login": "login {url} --token-stdin",
    "get-jobs": "get jobs -n {namespace}",
    "get-jobs-wide": "get jobs -o wide -n {namespace}",
    "get-jobs-json": "get jobs -o json -n {namespace}",
    "get-pods": "get pods -n {namespace}",
    "get-pools": "get pools",
    "get-nodes": "get nodes",
    "get-nodes-json": "get nodes {node} -o json",
    "get-labels": "get labels {node}",
    "get-gpu-types": "get gpu-types",
    "get-quotas": "get quotas -n {namespace}",
    "get-quotas-json": "get quotas -o json -n {namespace}",
    "get-namespaces": "get namespaces {namespace} -o json",
    "describe-job": "describe job a -n {namespace}",
    "describe-job-json": "describe job a -o json -n {namespace}",
    "describe-pool": "describe pool {pool}",
    "describe-node": "describe node {node}",
    "describe-quota": "describe quota {namespace}",
    "describe-namespace": "describe namespace {namespace}",
    "why": "why stuck -n {namespace}",
    "why-json": "why stuck -o json -n {namespace}",
    "history": "history b -n {namespace}",
    "history-revision": "history b --revision 1 -n {namespace}",
    "history-diff": "history b --diff 1 -n {namespace}",
    "logs": "logs a -n {namespace}",
    "fit": "fit -f - -n {namespace}",
    "fit-waiting": "fit -n {namespace}",
    "wait": "wait a --for=running -n {namespace}",
    "diff": "diff -f - -n {namespace}",
    "apply": "apply -f - --yes -n {namespace}",
    "create": "create -f - -n {namespace}",
    "pause": "pause a -n {namespace}",
    "resume": "resume a -n {namespace}",
    "rollback": "rollback b --yes -n {namespace}",
    "rerun": "rerun a --yes -n {namespace}",
    "recover": "recover -n {namespace}",
    "label-node": "label node {node} example.com/recorded=1 --overwrite",
    "add-node": "add node {node} --pool {pool}",
    "remove-node": "remove node {node} --pool nope",
    "delete-pool": "delete pool nope --yes",
    "delete-quota": "delete quota nope --yes",
    "delete-documents": "delete -f - --yes -n {namespace}",
    "delete-job": "delete job a --yes -n {namespace}",
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
    headers: Mapping[str, str] = {}
    """Further headers, and other values of them."""

    def changed(self, change: Callable[[Any], Any]) -> Answered:
        """Return the answer with another value, or with other values in its events."""
        if not self.kind.startswith("text/event-stream"):
            return self._replace(body=json.dumps(change(json.loads(self.body))))
        events = re.sub(
            r"(?m)^data: (.+)$", lambda found: f"data: {json.dumps(change(json.loads(found[1])))}", self.body
        )
        return self._replace(body=events)

    def renewed(self) -> Answered:
        """Return the answer of a later version: each object has one more field, and a stream has other events too."""
        found = self.changed(_renewed)
        if found.kind.startswith("text/event-stream"):
            return found._replace(body=f"event: {NEW_FIELD}\ndata: {{}}\n\n{found.body}")
        return found


def _renewed(value: Any) -> Any:
    if isinstance(value, list):
        return [_renewed(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: item if key in _MAPPINGS else _renewed(item) for key, item in value.items()}
    return {**kept, NEW_FIELD: {"x": 1}}


@contextmanager
def answering(answer: Callable[[Asked], Answered], tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve HTTP with a function, by TLS if a context is given; the URL."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path, _, query = self.path.partition("?")
            target = f"{path}?{urlencode(sorted(parse_qsl(query)))}" if query else path
            found = answer(Asked(self.command, target, dict(self.headers.items()), body))
            text = found.body.encode()
            self.send_response(found.status)
            headers = {"Content-Type": found.kind, "Content-Length": str(len(text)), **found.headers}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_DELETE = _answer

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def answering_in_turn(*answers: Answered) -> Iterator[tuple[str, list[Asked]]]:
    """Serve HTTP with these answers, the last one again and again; the URL and the requests so far."""
    left, heard = list(answers), list[Asked]()

    def answer(asked: Asked) -> Answered:
        heard.append(asked)
        return left.pop(0) if len(left) > 1 else left[0]

    with answering(answer) as url:
        yield url, heard


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


@contextmanager
def between(url: str, changed: Callable[[Answered], Answered]) -> Iterator[str]:
    """Yield the address of a proxy before a service, which changes its answers."""
    forward = forwarded(url)
    with answering(lambda asked: changed(forward(asked))) as address:
        yield address


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
            form = (asked.method, _without_times(asked.target))
            of_form = [item for item in left if (item[0], _without_times(item[1])) == form]
            if not of_form:
                text = {"error": "NotRecorded", "message": f"{asked.method} {asked.target} was not asked before"}
                return Answered(404, "application/json", json.dumps(text))
            if len(of_form) > 1:
                left.remove(of_form[0])
            return of_form[0][2].renewed()

        return answer


def _without_times(target: str) -> str:
    return re.sub(r"=\d{4}-\d\d-\d\dT[^&]*", "=TIME", target)


def comparable(text: str) -> str:
    """Return output without what differs from one run to the next: times, ages, widths of columns and addresses. The
    keys of a JSON object have no order.
    """
    if text.startswith("{"):
        text = json.dumps(json.loads(text), ensure_ascii=False, indent=1, sort_keys=True)
    text = re.sub(r"http://127\.0\.0\.1:\d+", "URL", text)
    text = re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d)?(?:Z| UTC)?", "TIME", text)
    text = re.sub(r"\b(?:\d+[dhms])+\b", "AGE", text)
    return re.sub(r"[ ─]+", " ", text)
