"""Generated requests: no 5xx, and no status, body or content type that the OpenAPI document does not list."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import urlsplit

import pytest
import schemathesis
import yaml
from fastapi.routing import APIRoute
from schemathesis import GenerationMode

from control_plane import ControlPlane
from gpuctl.api.change_models import ChangesBody, DocumentsBody, FilesBody, NamesBody
from gpuctl.api.node_label_answers import LabelChanges, NewLabel, NewLabels, NodeNames, PoolMembers
from gpuctl.api.wait_models import JobsWaitQuestion
from gpuctl_server.app import ROUTERS
from gpuctl_server.changes.admin_documents import AdminBody
from gpuctl_server.routes.auth_routes import RightQuestion
from gpuctl_server.routes.job_change_routes import BatchBody
from gpuctl_server.routes.job_question_routes import WaitQuestion
from properties.scale import SCALE, part_of
from support import node_world
from support.any_requests import POOL, USER, Walk, refill, served_world
from support.odd_bodies import BODIES, YAML, OddBody
from support.served import Served

DOCUMENT = json.loads((Path(__file__).parents[2] / "schemas" / "rest" / "openapi.json").read_text(encoding="utf-8"))
OPERATIONS = {
    item.ok().definition.raw["operationId"]: item.ok()
    for item in schemathesis.openapi.from_dict(DOCUMENT | {"security": []}).get_all_operations()
}

PARTS = 3
"""`make test` runs generated requests, odd headers and odd queries for one in PARTS operations, and sends each operation
one in PARTS of the invalid bodies.
"""

NEVER_FOUND = {"getQueue"}
"""Operations on objects that the control plane does not have: Kueue is not installed."""


@pytest.fixture(scope="module")
def own_plane() -> Iterator[ControlPlane]:
    """A control plane for these tests only: they may change or delete any object."""
    yield from node_world.running()


@pytest.fixture(scope="module")
def world(own_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served_world(tmp_path_factory.mktemp("any"), own_plane) as served:
        yield served


@pytest.mark.parametrize("name", part_of(OPERATIONS, PARTS))
def test_answers_match_the_openapi_document(world: Served, name: str) -> None:
    """For every user; at full scale, at least one request of an admin must succeed, so that the routes are really
    reached.
    """
    refill(world)
    wrong: dict[str, str] = {}
    for user, positive, negative in (("admin", 12, 6), ("anna", 3, 2), ("", 1, 1)):
        walk = Walk(world, OPERATIONS[name], user)
        walk.send(GenerationMode.POSITIVE, positive)
        walk.send(GenerationMode.NEGATIVE, negative)
        wrong |= walk.wrong
        if user == "admin" and SCALE >= 1 and name not in NEVER_FOUND:
            assert any(status < 300 for status in walk.statuses), f"no request succeeded: {walk.statuses}"
        if not user:
            # A generated query of more than 32 KiB is refused before the token is read.
            assert walk.statuses.keys() - {431} == {401}
    assert not wrong, "\n\n".join(wrong.values())


BODY_TYPES = {
    f"{method.upper()} {path.removeprefix('/api/v1')}": operation["requestBody"]["content"].keys()
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
    if "requestBody" in operation
}
"""Operations that have a request body -> its content types."""
BODIED = sorted(BODY_TYPES)
TAKES_YAML = {title for title in BODIED if "application/yaml" in BODY_TYPES[title]}
"""Operations that take documents, which may be YAML."""
OPEN_TO_ALL = {"POST /auth/check", "POST /fit", "POST /plan", "POST /jobs/{jobId}/wait", "POST /jobs/wait"}
"""Operations with a body that a read-only user may call."""


def fill_path(title: str) -> tuple[str, str]:
    """Return the method and path of an operation, with names of objects that exist."""
    names = {"jobId": "fuzz-train", "poolName": POOL, "nodeName": "node-1", "userName": USER}
    names |= {"revision": "1", "namespaceName": "default", "queueName": "absent"}
    method, _, path = title.partition(" ")
    return method, path.format(**names)


def test_bodies_are_parsed_by_the_expected_operations() -> None:
    """FastAPI would parse the body before the authorization check; a dependency parses it afterwards."""
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    assert [route.path for route in routes if route.body_field is not None] == []
    depending = {
        f"{method} {route.path_format.removeprefix('/api/v1')}"
        for route in routes
        for method in route.methods
        if any(parses_a_body(part) for part in route.dependant.dependencies)
    }
    assert depending == set(BODIED)


def parses_a_body(dependency: Any) -> bool:
    """Return True if the dependency parses a request body, that is, returns one of the body models."""
    return get_type_hints(dependency.call).get("return") in {
        *(
            BatchBody,
            ChangesBody,
            DocumentsBody,
            FilesBody,
            AdminBody,
            JobsWaitQuestion,
            NamesBody,
            NewLabel,
            NewLabels,
        ),
        *(RightQuestion, WaitQuestion, LabelChanges, NodeNames, PoolMembers),
    }


@pytest.mark.parametrize("title", BODIED)
def test_authorization_is_checked_before_the_body(world: Served, title: str) -> None:
    """An unauthorized user learns nothing about mistakes in the body, and cannot make the service parse it."""
    refill(world)
    for odd in (BODIES["half of a text"], BODIES["brackets in YAML"], OddBody(YAML, b"\xff")):
        for user, status in (("", 401), ("wrong", 401), ("vera", 400 if title in OPEN_TO_ALL else 403)):
            headers = {"Content-Type": odd.kind}
            if user:
                headers["Authorization"] = f"Bearer {world.tokens.get(user, user)}"
            method, path = fill_path(title)
            answer = world.client("").request(method, path, content=odd.body, headers=headers)
            assert answer.status_code == status, f"{user}: {answer.text}"


@pytest.mark.parametrize("title", BODIED)
def test_invalid_bodies_are_rejected_with_400(world: Served, title: str) -> None:
    """400, and the message names the mistake."""
    refill(world)
    method, path = fill_path(title)
    # One dependency parses the bodies of all operations; each body meets several of them.
    step = 1 if SCALE >= 1 else PARTS
    for name, odd in list(BODIES.items())[BODIED.index(title) % step :: step]:
        answer = world.client().request(method, path, content=odd.body, headers={"Content-Type": odd.kind})
        assert answer.status_code == 400, f"{name}: {answer.status_code} {answer.text[:500]}"
        value = answer.json()
        assert {"error", "message", "details"} <= value.keys() <= {"error", "message", "details", "hint"}, name
        assert 0 < len(value["message"]) < 2000, name
        if odd.kind == YAML and title not in TAKES_YAML:
            assert "this path takes JSON" in value["message"], f"{name}: {value['message']}"
        if odd.kind != YAML:
            assert odd.told in value["message"], f"{name}: {value['message']}"
    assert world.get("/jobs")["total"] > 0


HEADERS: list[list[tuple[str, str]]] = [
    [("Content-Type", "application/json"), ("Content-Type", "application/yaml")],
    [("Content-Type", "application/yaml"), ("Content-Type", "application/json")],
    [("Content-Type", "application/json; charset=\xff")],
    [("Content-Type", "multipart/form-data; boundary=")],
    [("Content-Type", ";;;")],
    [("Content-Type", "")],
    [("Accept", "application/yaml;q=nan, application/json;q=inf"), ("Accept", "\xff")],
    [("Authorization", "Bearer x")],
    [("Idempotency-Key", "\xff\xfe")],
    [("X-Request-ID", "\xff" * 300)],
    [("Accept-Encoding", "gzip;q=x"), ("Expect", "the unexpected"), ("Upgrade", "h2c")],
    [("Content-Encoding", "gzip")],
    [("Range", "bytes=5-1"), ("If-Modified-Since", "never")],
]


@pytest.mark.parametrize("title", part_of(BODIED, PARTS))
def test_odd_headers_do_not_make_bodies_valid(world: Served, title: str) -> None:
    """An invalid body stays invalid, whatever the headers claim."""
    refill(world)
    method, path = fill_path(title)
    for headers in HEADERS:
        for body in (b'{"x": ', b"a: [\n"):
            status, value = send_unnormalized(world, method, path, headers, body)
            assert status in {400, 401}, f"{headers}: {status} {value}"
            assert value["error"], headers


READ = [f"GET {path}" for path in sorted(DOCUMENT["paths"]) if "get" in DOCUMENT["paths"][path]]
QUERIES = (
    *("page=1&page=2", "page=%31", "page=%ff", "page=1e3", "page=9" * 200, "pageSize=-0", "pageSize=%00"),
    *(
        "namespace=%ff%fe",
        "namespace=%ed%a0%80",
        "namespace=%00",
        "namespace=team-a&namespace=default",
        "namespace[]=a",
    ),
    *("%", "%%%", "=", "&&&", "a;b", "?", "%ff=%ff", "accept=%ff", "accept=application/yaml&accept=application/json"),
    *("key=%ed%a0%80", "key=a&key=b", "tail=1&tail=2", "since=%ff", "startTime=%ed%a0%80", "grep=%ff", "pod=%00"),
    *("start_time=%ff&end_time=%ed%a0%80", "start_time=2025-11-05T00:00:00Z&end_time=2025-11-06T00:00:00Z&cluster=%00"),
    *("confirm=%74rue", "force=yes&force=no", "timeout=nan", "all=2", "dryRun=", "metric=%22%7d", "container=%0a"),
)


@pytest.mark.parametrize("title", part_of(READ, PARTS))
def test_odd_query_strings_cause_no_server_error(world: Served, title: str) -> None:
    """Repeated parameters, and bytes that are not UTF-8."""
    refill(world)
    method, path = fill_path(title.replace("/api/v1", "").replace("{key}", "runwhere.ai/pool"))
    for query in QUERIES:
        status, _ = send_unnormalized(world, method, f"{path}?{query}", [], None)
        assert status in {200, 400, 403, 404}, f"{query}: {status}"


def send_unnormalized(
    served: Served, method: str, path: str, headers: Sequence[tuple[str, str]], body: bytes | None
) -> Any:
    """Send a request with `http.client`, which does not normalize it as httpx does; return status and parsed body."""
    connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=60)
    try:
        connection.putrequest(method, f"/api/v1{path}", skip_accept_encoding=True)
        if "Authorization" not in dict(headers):
            connection.putheader("Authorization", f"Bearer {served.tokens['admin']}")
        for name, value in headers:
            connection.putheader(name, value.encode("latin-1"))
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, yaml.load(answer.read(), yaml.CSafeLoader)
    finally:
        connection.close()
