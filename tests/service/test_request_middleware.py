"""The checks before every route: bodies, concurrency, paths, TLS, CORS, and shutdown."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import signal
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from control_plane import ControlPlane
from support.certificates import self_signed
from support.cluster_tools import training
from support.documents_sent import sent, text_of
from support.served import Served, serving

ADMIN = {"admin": ("admin", None, None)}


def send_raw(served: Served, data: bytes) -> bytes:
    """Send raw bytes and return the answer."""
    parts = urlsplit(served.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        connection.sendall(data)
        found = b""
        with contextlib.suppress(TimeoutError):
            while portion := connection.recv(65536):
                found += portion
        return found


def request_head(served: Served, line: str, *fields: str) -> bytes:
    token = served.tokens["admin"]
    return "\r\n".join(
        [line, "Host: x", f"Authorization: Bearer {token}", "Connection: close", *fields, "", ""]
    ).encode()


def test_oversized_bodies_are_rejected(served: Served) -> None:
    """By Content-Length or by the bytes received."""
    large = b"x" * (1024 * 1024 + 1)
    for content in (large, iter([large[: 600 * 1024], large[: 600 * 1024]])):
        found = served.call("POST", "/auth/check", status=413, content=content)
        assert found["error"] == "RequestEntityTooLarge"


@pytest.mark.slow
def test_compilation_over_the_cpu_limit_is_rejected(plane: ControlPlane, tmp_path: Path) -> None:
    """413 from every operation that takes documents; afterwards their slot is free again."""
    texts = [
        f"kind: compute\nversion: v0.1\njob: {{name: long-{number}}}\nenvironment: {{image: a/b:1, command: [a]}}\n"
        for number in range(50)
    ]
    body = {"yamlContent": "---\n".join(texts)}
    requests = [("/jobs", body), ("/jobs?dryRun=true", body), ("/plan", body), ("/fit", body)]
    with serving(tmp_path, plane.kubeconfig(), ADMIN, compile_limit="0.000001", concurrency="1") as own:
        for path, content in requests:
            found = own.call("POST", path, status=413, json=content)
            assert found["message"] == "these documents need more than 1e-06 s of CPU time to compile"
            assert found["hint"] == "send fewer or shorter documents at a time"
        found = own.call("POST", "/jobs/batch", status=201, json={"yamlContents": texts[:2]})
        assert [item["error"] for item in found["failed"]] == ["RequestEntityTooLarge"] * 2
        assert own.get("/jobs")["total"] >= 0


@pytest.mark.slow
def test_documents_with_too_many_values(served: Served) -> None:
    text = (
        f"kind: compute\nversion: v0.1\njob: {{name: many}}\nenvironment: {{image: a/b:1, args: [{'a,' * 250_001}]}}\n"
    )
    found = served.call("POST", "/plan", "viktor", status=400, json={"yamlContent": text})
    assert [item["code"] for item in found["details"]] == ["GPU003"]


@pytest.mark.slow
def test_missing_body_times_out_without_blocking_others(plane: ControlPlane, tmp_path: Path) -> None:
    """408 after `body_timeout`; other requests are answered before that."""
    with serving(tmp_path, plane.kubeconfig(), ADMIN, body_timeout="1", concurrency="1") as own:
        parts = urlsplit(own.url)
        waiting = [socket.create_connection((parts.hostname, parts.port), timeout=30) for _ in range(20)]
        for connection in waiting:
            connection.sendall(request_head(own, "POST /api/v1/auth/check HTTP/1.1", "Content-Length: 10") + b"{")
        assert own.get("/jobs")["total"] >= 0
        for connection in waiting:
            assert connection.recv(1000).startswith(b"HTTP/1.1 408 ")
            connection.close()


@pytest.mark.slow
def test_requests_over_the_concurrency_limit_get_429(plane: ControlPlane, tmp_path: Path) -> None:
    """429; the health check is answered all the time."""
    with serving(tmp_path, plane.kubeconfig(), ADMIN, concurrency="1", queue="0") as own:
        statuses: list[int] = []
        question = {"resource": "jobs", "action": "get"}

        def ask() -> None:
            with httpx.Client(headers={"Authorization": f"Bearer {own.tokens['admin']}"}, timeout=60) as client:
                for _ in range(30):
                    statuses.append(client.post(f"{own.url}/api/v1/auth/check", json=question).status_code)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            assert httpx.get(f"{own.url}/healthz", timeout=30).status_code == 200
        assert set(statuses) == {200, 429}


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/jobs/../../metrics",
        "/api/v1/%2e%2e/jobs",
        "/api/v1//jobs",
        "/api/v1/jobs/",
        "/api/v1/jobs%00",
        "/api/v1/jobs/%2e%2e%2f%2e%2e%2fpools",
        "/api/v1/" + "x" * 4000,
        "/api/v2/jobs",
        "//api/v1/jobs",
        "/API/V1/JOBS",
    ],
)
def test_odd_paths_are_not_found(served: Served, path: str) -> None:
    """400 or 404, and no exception."""
    answer = send_raw(served, request_head(served, f"GET {path} HTTP/1.1"))
    status = int(answer.split()[1])
    assert status in {400, 404}, answer[:300]
    assert b"Traceback" not in answer


INVALID_NAMES = (
    *("", "/", ".", "..", "%2e%2e", "%2e%2e%2fpods", "%2Fetc", "a%2Fb", "training%2Fa", "node-1/", "NODE-1", "*"),
    *("%20", "%ff", "a%00b", "%F0%9F%92%A9", "x" * 254, "a" * 300),
)


@pytest.mark.parametrize(
    "operation",
    [
        *(f"{method} /{path}/NAME" for method in ("GET", "DELETE") for path in ("jobs", "nodes", "pools", "quotas")),
        *("PUT /jobs/NAME", "POST /jobs/NAME/pause", "DELETE /jobs/a?namespace=NAME"),
    ],
)
def test_invalid_names_are_client_errors(served: Served, operation: str) -> None:
    method, path = operation.split()
    for name in INVALID_NAMES:
        body = None if method == "GET" else sent(training("a"))
        answer = served.untidied(method, path.replace("NAME", name), body=body)
        found = (answer.status, answer.value["error"])
        assert found in {
            (400, "InvalidRequest"),
            (404, "NotFound"),
            (404, "NodeNotFound"),
            (405, "MethodNotAllowed"),
        }, (
            name,
            answer,
        )


@pytest.mark.parametrize(
    "line",
    [
        "GET",
        "GET /api/v1/jobs HTTP/9.9",
        "BREW /api/v1/jobs HTTP/1.1",
        "GET http:// HTTP/1.1",
        "\x00",
    ],
)
def test_malformed_request_lines_are_rejected(served: Served, line: str) -> None:
    answer = send_raw(served, request_head(served, line))
    assert not answer or 400 <= int(answer.split()[1]) < 500, answer[:300]
    assert served.get("/jobs")["total"] >= 0


def test_unsupported_method_answer_lists_allowed_methods(served: Served) -> None:
    """405 with the allowed methods (RFC 9110, 15.5.6)."""
    refused = served.call("PATCH", "/jobs", status=405)
    assert refused["error"] == "MethodNotAllowed"
    assert refused["message"] == "the path has no method PATCH, but GET, HEAD, POST"
    for path, methods in (
        ("/jobs", "GET, HEAD, POST"),
        ("/jobs/x", "DELETE, GET, HEAD, PUT"),
        ("/nodes/x/labels/a/b", "DELETE, GET, HEAD"),
    ):
        assert served.client().patch(path).headers["allow"] == methods
    assert served.get("/nothing", status=404) == {
        "error": "NotFound",
        "message": "this path does not exist",
        "details": [],
        "hint": "see /api/v1/docs",
    }
    # A client reads from this header that the service is older than the path.
    assert served.client().get("/nothing").headers["gpuctl-unknown-path"] == "true"
    assert "gpuctl-unknown-path" not in served.client().get("/jobs/nothing").headers


def test_each_answer_has_a_request_id(served: Served) -> None:
    """The client's own id if it is safe to log; the id is in the log too."""
    assert served.client().get("/jobs", headers={"X-Request-ID": "mine-1"}).headers["x-request-id"] == "mine-1"
    other = served.client().get("/jobs", headers={"X-Request-ID": "a b{}"}).headers["x-request-id"]
    assert other != "a b{}"

    def logged_ids() -> set[str]:
        return {json.loads(line).get("requestId") for line in list(served.log) if line.startswith("{")}

    end = time.monotonic() + 30
    while not {"mine-1", other} <= logged_ids():
        # The log line is written after the answer, and read here by a thread.
        assert time.monotonic() < end, logged_ids()
        time.sleep(0.05)
    assert not any(served.tokens["admin"] in line for line in served.log)


def test_requests_are_counted_in_metrics(served: Served) -> None:
    served.get("/jobs")
    assert httpx.get(f"{served.url}/metrics").status_code == 401
    token = {"Authorization": f"Bearer {served.tokens['vera']}"}
    counted = 'gpuctl_server_requests_total{method="GET",route="/api/v1/jobs",status="200"}'
    end = time.monotonic() + 30
    while counted not in (text := httpx.get(f"{served.url}/metrics", headers=token).text):
        # The request is counted after the answer.
        assert time.monotonic() < end, text
        time.sleep(0.05)
    assert re.search(r'gpuctl_server_mirror_objects\{kind="Node"\} [1-9]', text)


def test_cors_allows_only_configured_origins(served: Served, plane: ControlPlane, tmp_path: Path) -> None:
    """Origins are rejected unless the setting `cors` lists them."""
    wish = {"Origin": "https://portal.example.com", "Access-Control-Request-Method": "GET"}
    plain = httpx.options(f"{served.url}/api/v1/jobs", headers=wish)
    assert "access-control-allow-origin" not in plain.headers
    with serving(tmp_path, plane.kubeconfig(), ADMIN, cors='["https://portal.example.com"]') as own:
        found = httpx.options(f"{own.url}/api/v1/jobs", headers=wish)
        assert found.headers["access-control-allow-origin"] == "https://portal.example.com"
        other = httpx.options(f"{own.url}/api/v1/jobs", headers={**wish, "Origin": "https://evil.example.com"})
        assert "access-control-allow-origin" not in other.headers


def test_tls_replaces_plain_http(plane: ControlPlane, tmp_path: Path) -> None:
    """With a certificate, plain HTTP is not served."""
    certificate, key = self_signed(tmp_path)
    trust = ssl.create_default_context(cafile=str(certificate))
    options: dict[str, Any] = {"tls_key": str(key), "tls_certificate": str(certificate)}
    with serving(tmp_path, plane.kubeconfig(), ADMIN, verify=trust, **options) as own:
        assert own.url.startswith("https://")
        assert own.get("/jobs")["total"] >= 0
        with pytest.raises(httpx.HTTPError):
            httpx.get(own.url.replace("https", "http") + "/healthz")


@pytest.mark.slow
def test_idle_connection_does_not_delay_shutdown(plane: ControlPlane, tmp_path: Path) -> None:
    """Running requests finish; an idle connection does not delay the shutdown."""
    with serving(tmp_path, plane.kubeconfig(), ADMIN, shutdown_timeout="600") as own:
        own.get("/jobs")
        own.process.send_signal(signal.SIGTERM)
        # Long before shutdown_timeout.
        assert own.process.wait(timeout=60) == 0
    assert not any("Traceback" in line for line in own.log), "".join(own.log)


def test_yaml_without_its_content_type_gets_a_hint(served: Served) -> None:
    """Curl sends the type of a form unless it is given another one."""
    for kind, hint in (
        ("application/x-www-form-urlencoded", "`Content-Type: application/yaml` sends YAML"),
        ("application/json", None),
    ):
        refused = served.client().post("/jobs", content=b"kind: training", headers={"Content-Type": kind}).json()
        assert (refused["error"], refused.get("hint")) == ("InvalidRequest", hint)


def test_head_is_answered_as_get_without_body(served: Served) -> None:
    """HEAD is answered as GET without the body; a stream rejects it with the allowed methods."""
    for path in ("/jobs", "/pools", "/nodes", "/openapi.json"):
        head, get = served.client().head(path), served.client().get(path)
        assert (head.status_code, head.content) == (get.status_code, b"")
        assert head.headers["content-length"] == str(len(get.content))
    assert served.client().head("/jobs/nobody").status_code == 404
    refused = served.client().head("/jobs/nobody/logs?follow=true")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")
    assert served.client().head("/plan").headers["allow"] == "POST"


def test_every_answer_forbids_content_sniffing(served: Served) -> None:
    for path in ("/jobs", "/nothing", "/docs/", "/docs/files/swagger-ui.css"):
        assert served.client().get(path).headers["x-content-type-options"] == "nosniff", path


def test_repeated_authorization_header_is_rejected(served: Served) -> None:
    """The request is rejected: a proxy and the client may have sent different tokens."""
    tokens = [("Authorization", f"Bearer {served.tokens[name]}") for name in ("anna", "admin")]
    answer = served.client("").get("/jobs", headers=tokens)
    assert (answer.status_code, answer.json()["message"]) == (400, "the header Authorization is given twice")


def test_write_that_depends_on_an_etag_is_rejected(served: Served) -> None:
    """It would overwrite changes that the client has not seen. Reads ignore the header."""
    client, etag = served.client(), {"If-Match": '"1"'}
    refused = client.delete("/jobs/none", headers=etag)
    assert (refused.status_code, refused.json()["error"]) == (400, "InvalidRequest")
    assert "objects have no ETag" in refused.json()["message"]
    assert client.delete("/jobs/none", headers={"If-Match": "*"}).status_code == 404
    assert client.get("/jobs", headers=etag).status_code == 200


def test_compressed_body_is_rejected_by_its_encoding(served: Served) -> None:
    body = gzip.compress(json.dumps({"resource": "jobs", "action": "get"}).encode())
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    answer = served.call("POST", "/auth/check", status=400, content=body, headers=headers)
    assert (answer["error"], answer["message"]) == (
        "InvalidRequest",
        "the body has the Content-Encoding gzip: send it without",
    )
    plain = {"Content-Type": "application/json", "Content-Encoding": "identity"}
    assert served.call("POST", "/auth/check", content=gzip.decompress(body), headers=plain)["allowed"]


def test_messages_follow_accept_language(served: Served) -> None:
    """Messages follow Accept-Language; error codes stay English."""
    question = {"resource": "jobs", "action": "create", "pool": "training-pool"}
    for language, message in (
        ("zh-CN,zh;q=0.9,en;q=0.8", "用户拥有training-pool的任务创建权限"),
        ("en", "admin may create jobs of the pool training-pool"),
    ):
        headers = {"Accept-Language": language}
        assert served.call("POST", "/auth/check", json=question, headers=headers)["message"] == message
    label = {"nodeNames": ["nobody-0"], "key": "runwhere.ai/a", "value": "b"}
    answer = served.call("POST", "/nodes/labels/batch", json=label, headers={"Accept-Language": "zh"})
    assert answer["message"] == "部分节点标记失败，请查看 failed 列表"
    assert (answer["failed"][0]["error"], answer["failed"][0]["message"]) == ("NodeNotFound", "节点 nobody-0 不存在")


def test_diagnostics_follow_accept_language(served: Served) -> None:
    """Messages and hints of each path that takes documents; no cache holds those of another language."""
    invalid = training("wrong", job={"namespace": "team-a"}, resources={"gpu-vendor": "nvida"})
    unsure = training("unsure", job={"namespace": "team-a"}, resources={"memory": None})
    unknown, advice = "the platform defines no GPU vendor `nvida`", "did you mean `nvidia`?"
    spoken = {"zh": ("平台没有定义 GPU 厂商 `nvida`", "是否想写 `nvidia`？"), "en": (unknown, advice)}
    missing = {"zh": "任务申请了 GPU，却没有写 memory", "en": "the job asks for GPUs and names no memory"}
    for language in ("zh", "en", "zh", "en"):
        headers = {"Accept-Language": language}
        for path in ("/plan", "/fit", "/jobs", "/apply"):
            found = served.call("POST", path, status=400, json=sent(invalid), headers=headers)
            assert spoken[language] in [(item["message"], item["hint"]) for item in found["details"]], path
        batch = {"yamlContents": [text_of(invalid)]}
        entry = served.call("POST", "/jobs/batch", status=201, json=batch, headers=headers)["failed"][0]
        assert spoken[language] in [(item["message"], item["hint"]) for item in entry["details"]]
        for path in ("/plan", "/fit", "/jobs?dryRun=true"):
            found = served.call("POST", path, json=sent(unsure), headers=headers)
            assert missing[language] in [item["message"] for item in found["warnings"]], path


def test_kept_answers_and_early_errors_have_a_language(served: Served) -> None:
    chinese = {"Accept-Language": "zh"}
    for headers, language, text in (
        (chinese, "zh", "不属于任何资源池的节点"),
        # The second answer comes from the cache.
        (chinese, "zh", "不属于任何资源池的节点"),
        ({}, None, "nodes that are in no pool"),
    ):
        answer = served.client().get("/pools", headers=headers)
        assert (answer.headers.get("Content-Language"), text in answer.text) == (language, True)
    lost = served.client().get("/nothing", headers=chinese)
    assert (lost.json()["message"], lost.headers["Content-Language"]) == ("此路径不存在", "zh")
    both = [("Authorization", "Bearer a"), ("Authorization", "Bearer b"), ("Accept-Language", "zh")]
    twice = served.client("").get("/jobs", headers=both)
    assert (twice.json()["message"], twice.headers["Content-Language"]) == ("请求头 Authorization 重复", "zh")
