"""Generated requests: schemathesis reads the OpenAPI document, and existing names are mixed in."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from control_plane import ControlPlane
from gpuctl_server.access.rights import ACTIONS, RESOURCES
from gpuctl_server.http.openapi_document import PROBLEM
from properties.mutations import VALUES, mutated, mutated_bytes
from properties.scale import scaled
from support.cluster_tools import compute, inference, notebook, outcome, training
from support.prometheus_server import running_prometheus
from support.served import Served, serving
from support.small_usage import one_hour

TEAM = "team-a"
USERS = {"admin": ("admin", None, None), "anna": ("user", (TEAM,), None), "vera": ("viewer", None, None)}
POOL, QUOTA, USER = "fuzz-pool", "fuzz-quota", "fuzz-user"
ENDED = "fuzz-done"
SCHEDULED = "fuzz-nightly"
ELASTIC = "fuzz-elastic"
_HOME = {"namespace": TEAM}
_PLACE = {"pool": "training-pool", "cpu": 1, "memory": "1Gi"}
JOBS = (
    training("fuzz-train", job=_HOME, resources=_PLACE),
    inference("fuzz-serve", job=_HOME, resources=_PLACE),
    notebook("fuzz-note", job=_HOME, resources=_PLACE),
    compute("fuzz-web", job=_HOME, resources=_PLACE),
    training("fuzz-wide", job=_HOME, resources=_PLACE | {"nodes": 2, "gpu": 8}),
    training(
        SCHEDULED,
        job=_HOME | outcome("complete"),
        resources=_PLACE,
        # An unfinished run would prevent the next one.
        schedule={"cron": "0 2 29 2 *", "concurrency": "allow"},
    ),
    training(ELASTIC, job=_HOME, resources=_PLACE | {"nodes": {"min": 1, "max": 2}}),
    training(ENDED, job=_HOME | outcome("complete"), resources=_PLACE),
)
"""Jobs that there are beside those of the cluster, which are only pods."""
_NODES = ("node-1", "node-2", "node-3", "node-4", "npu-1", "absent")
_LONG = "a" * 253
_TOO_LONG = st.text(st.characters(exclude_characters="/"), min_size=1, max_size=4).map(lambda text: text * 254)
NAMES: dict[str, tuple[str | int, ...]] = {
    "jobId": (ENDED, *(job["job"]["name"] for job in JOBS), "sft-abcde", "foreign", "big-abcde", "broken", _LONG, "*"),
    "revision": (1, 1, 2, 999_999_999),
    "to": (1, 1, 2),
    "nodes": (1, 2, 3),
    "poolName": (POOL, "training-pool", "npu-pool", "default", "POOL", _LONG),
    "nodeName": (*_NODES, "labels", "a.b", _LONG),
    "queueName": ("absent", _LONG),
    "namespaceName": (TEAM, "default", "absent"),
    "userName": (USER, QUOTA, TEAM, "nobody", _LONG),
    "key": ("runwhere.ai/pool", "nvidia.com/gpu-type", "runwhere.ai/gpu-type", "example.com/x", "x", "a//b"),
    "namespace": (TEAM, "default", "kube-system", "absent", "-", "A"),
    "pool": ("training-pool", POOL, "absent"),
    "kind": ("training", "inference", "pod"),
    "status": ("running", "pending", "active", "faulty"),
    "since": ("10m", "1000000d", "2024-06-01T10:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"),
    "startTime": ("2024-06-01T10:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "1e9"),
    "endTime": ("2024-06-01T11:00:00Z", "2024-06-01T10:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00"),
    "start_time": ("2025-11-05T00:00:00Z", "2025-11-04T00:00:00 08:00", "0001-01-01T00:00:00+14:00", "1e9"),
    "end_time": ("2025-11-06T00:00:00Z", "2025-11-06T23:59:59.5Z", "9999-12-31T23:59:59-14:00", "2025-11-05T00:00:00Z"),
    "tz": ("Asia/Shanghai", "", "UTC", "Europe/Berlin", "Mars/Olympus"),
    "cursor": ("", "", "e30"),
    "cluster": ("cluster-1", "", "absent"),
    "dimension_key": ("team", "cost-center", "absent"),
    "dimension_value": ("a", "", "__unset__"),
    "workload_name": ("fuzz-train", "", _LONG),
    "workload_type": ("Job", "", "Pod"),
    "accept": ("application/yaml", "application/json", "text/html"),
}
"""Parameter -> what it can be beside any text: names of what is there, of what never is, and what is hard to read."""
_ACCEPTED = (
    "application/yaml",
    "application/json",
    "text/event-stream",
    "text/html;q=x",
    "*/*;q=0",
    "application/yaml;q=",
)
_NEW = ("new-1", "new-2", "new-3", "new-4")
_CHANGES = st.fixed_dictionaries(
    {"name": st.sampled_from(_NEW)},
    optional={
        "priority": st.sampled_from(("high", "low")),
        "description": st.text(max_size=20),
        "labels": st.sampled_from(({"a": "b"}, {"a": None}, {"runwhere.ai/pool": "x"})),
    },
)
_SIZES = st.fixed_dictionaries(
    {}, optional={"gpu": st.integers(-1, 2**70), "cpu": st.floats(0, 64), "memory": st.sampled_from(VALUES)}
)


def _jobs(changes: st.SearchStrategy[Any], sizes: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    return st.builds(
        lambda job, changes, sizes: json.dumps(
            {**job, "job": job["job"] | changes, "resources": job["resources"] | sizes}
        ),
        st.sampled_from(JOBS),
        changes,
        sizes,
    )


_SOUND = _jobs(st.just({}) | st.sampled_from(_NEW).map(lambda name: {"name": name}), st.just({}))
DOCUMENTS = _jobs(_CHANGES, st.just({}) | _SIZES) | st.integers(0, 10**6).map(mutated)
"""Documents as text: of jobs as they might be, and of every kind with mistakes in them."""
_BYTES = st.integers(0, 10**6).map(mutated_bytes)
_KEYS, _TYPES = ("example.com/x", "nvidia.com/gpu-type"), ("a100-80g", "t4")
_AMOUNTS = st.sampled_from(({"cpu": "x"}, {"maxJobs": 0}, {"gpu": 2**70}, {}, None, []))
ODD: dict[str, st.SearchStrategy[Any]] = {
    "yamlContent": DOCUMENTS,
    "yamlContents": st.lists(DOCUMENTS, min_size=1, max_size=3),
    "name": st.sampled_from((POOL, QUOTA, "training-pool", "-", "é")),
    "nodes": st.lists(st.sampled_from(_NODES), max_size=3),
    "gpuType": st.lists(st.sampled_from(("a100-80g", "", "é")), max_size=2),
    "nodeNames": st.lists(st.sampled_from(_NODES), min_size=1, max_size=3),
    "users": st.dictionaries(st.sampled_from((USER, TEAM, "-", "")), _AMOUNTS, max_size=2),
    "names": st.lists(st.sampled_from(NAMES["jobId"]), min_size=1, max_size=2),
    "files": st.lists(st.builds(lambda text: {"name": "a.yaml", "text": text}, DOCUMENTS), max_size=2),
    "confirmed": st.lists(st.text(max_size=20), max_size=2),
    "namespace": st.none() | st.sampled_from(NAMES["namespace"]),
    "default": _AMOUNTS,
    "key": st.sampled_from(NAMES["key"]),
    "labels": st.dictionaries(st.sampled_from(NAMES["key"]), st.none() | st.sampled_from(("", "é")), max_size=2),
    "value": st.sampled_from(("", "é", "a" * 64)),
    "resource": st.sampled_from(RESOURCES),
    "action": st.sampled_from(ACTIONS),
}
"""Field of a body -> what it is that has something wrong with it, often."""
SOUND: dict[str, st.SearchStrategy[Any]] = {
    "yamlContent": _SOUND,
    "yamlContents": st.lists(_SOUND, min_size=1, max_size=2),
    "name": st.sampled_from(_NEW),
    "names": st.just([]),
    "nodes": st.lists(st.sampled_from(("cpu-1", "node-4", "absent")), max_size=2, unique=True),
    "nodeNames": st.lists(st.sampled_from(_NODES[:4]), min_size=1, max_size=2, unique=True),
    "users": st.dictionaries(st.sampled_from(_NEW), st.just({"cpu": 4, "memory": "8Gi", "gpu": 1}), min_size=1),
    "key": st.sampled_from(_KEYS),
    "labels": st.dictionaries(st.sampled_from(_KEYS), st.none() | st.sampled_from(_TYPES), min_size=1),
    "value": st.sampled_from(_TYPES),
    "overwrite": st.booleans(),
    "dryRun": st.booleans(),
    "resource": ODD["resource"],
    "action": ODD["action"],
    "condition": st.sampled_from(("running", "done", "ready", "deleted")),
}
"""Field of a body -> what it is that can be brought about."""
NAMED = {
    "/jobs/rerun": ENDED,
    "/jobs/run": SCHEDULED,
    "/jobs/scale": ELASTIC,
    "/pools/delete": POOL,
    "/quotas/delete": USER,
}
"""Path of several names, or of one job without its ``{jobId}`` -> one that exists and can be changed so."""
_WAITS = 0.2
"""Seconds that a request may wait for a job."""


@contextmanager
def served_world(directory: Path, plane: ControlPlane) -> Iterator[Served]:
    """A service with a Prometheus, before a cluster that requests may spoil."""
    with (
        running_prometheus(directory) as prometheus,
        serving(
            directory,
            plane.kubeconfig(),
            USERS,
            prometheus=prometheus,
            usage_database=one_hour(directory, plane),
        ) as served,
    ):
        yield served


def refill(served: Served) -> None:
    """Create again what earlier requests have deleted, and wait until the ended training has ended again."""
    ask, sure = served.client(), {"confirm": "true"}
    there = {item["name"] for item in served.get("/jobs", pageSize=1000, namespace=TEAM)["items"]}
    missing = [json.dumps(job) for job in JOBS if job["job"]["name"] not in there]
    if missing:
        ask.post("/jobs/batch", json={"yamlContents": missing}, params=sure)
    ask.post(f"/jobs/{ENDED}/wait", json={"condition": "done", "timeout": 30})
    if ask.get(f"/pools/{POOL}").status_code != 200:
        ask.post("/pools", json={"name": POOL, "nodes": ["node-4"]}, params=sure)
    if ask.get(f"/quotas/{USER}").status_code != 200:
        amounts = {USER: {"cpu": 4, "memory": "8Gi", "gpu": 1}}
        ask.post("/quotas", json={"name": QUOTA, "users": amounts}, params=sure)


class Walk:
    """Requests to one operation as one user. ``statuses`` counts the responses, ``wrong`` lists those that differ from
    the document.
    """

    def __init__(self, served: Served, operation: APIOperation, user: str) -> None:
        self.statuses: Counter[int] = Counter()
        self.wrong: dict[str, str] = {}
        self._url = served.url
        self._operation = operation
        self._token = {"Authorization": f"Bearer {served.tokens[user]}"} if user else {}
        self._session = requests.Session()

    def send(self, mode: GenerationMode, number: int) -> None:
        """Send as many requests as in a normal run, always the same."""
        if mode is GenerationMode.NEGATIVE and not (self._operation.body or any(self._operation.iter_parameters())):
            # Nothing of it can be wrong.
            return

        @settings(
            max_examples=scaled(number),
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=requests_of(self._operation, mode))
        def one(case: Case) -> None:
            self._judge(case)

        one()

    def _judge(self, case: Case) -> None:
        response = case.call(base_url=self._url, session=self._session, headers=self._token, timeout=60)
        self.statuses[response.status_code] += 1
        checks = [status_code_conformance, content_type_conformance, response_schema_conformance]
        said = "the service failed" if response.status_code >= 500 else ""
        try:
            case.validate_response(response, checks=checks)
        except FailureGroup as error:
            said = "\n".join(f"{item.title}: {item.message}" for item in error.exceptions)
        if not said and response.status_code >= 400 and "json" in response.headers["content-type"][0]:
            said = _unlike_a_problem(response.json(), self._operation.path)
        if said:
            request = f"{case.as_curl_command(headers=self._token)[:2000]}"
            self.wrong.setdefault(f"{response.status_code} {said[:200]}", f"{said}\n{request}\n{response.text[:2000]}")


def _is_one_text(operation: APIOperation) -> bool:
    """Return True if a request can only be wrong by one free text in its path."""
    parameters = [parameter.definition for parameter in operation.iter_parameters()]
    return not operation.body and [(item["in"], item["schema"]["type"]) for item in parameters] == [("path", "string")]


def _unlike_a_problem(value: Mapping[str, Any], path: str) -> str:
    if "/gpu-aggregation/" in path:
        return "" if value.keys() == {"code", "message", "error"} and value["error"] else "no error of usage"
    known = PROBLEM["properties"].keys()
    return (
        "" if set(PROBLEM["required"]) <= value.keys() <= known and value["message"] else "no error of the usual form"
    )


@st.composite
def requests_of(draw: Callable[..., Any], operation: APIOperation, mode: GenerationMode) -> Case:
    """A request as schemathesis makes it, where known names take the place of some texts, and documents of others.

    Of those that it takes for valid every other one is: it does something.
    """
    # A text that can only be too long schemathesis finds after half a second of search, all that it tries being long.
    lengthened = mode is GenerationMode.NEGATIVE and _is_one_text(operation)
    case: Case = draw(operation.as_strategy(generation_mode=GenerationMode.POSITIVE if lengthened else mode))
    if lengthened:
        case.path_parameters = dict.fromkeys(case.path_parameters, draw(_TOO_LONG))
    sound = mode is GenerationMode.POSITIVE and draw(st.booleans())
    for place in (case.path_parameters, case.query):
        for name in sorted((place or {}).keys() & NAMES):
            if sound or draw(st.integers(0, 2)):
                place[name] = draw(st.sampled_from(NAMES[name][:2] if sound else NAMES[name]))
    if sound and operation.path.endswith(("/hourly-stats", "/ledger")):
        # Leave out parameters that contradict another, and always state the hours.
        apart = ("hours", "cursor", "key", "namespace", "exclude_namespaces", "by")
        rest = {name: value for name, value in (case.query or {}).items() if name not in apart}
        case.query = {**rest, "start_time": NAMES["start_time"][0], "end_time": NAMES["end_time"][0]}
    named = NAMED.get(operation.path.removeprefix("/api/v1").replace("/{jobId}", ""))
    if sound and named and "jobId" in (case.path_parameters or {}):
        case.path_parameters["jobId"] = named
    if draw(st.booleans()):
        case.headers["Accept"] = draw(st.sampled_from(_ACCEPTED))
    if case.media_type == "application/yaml" and isinstance(case.body, str):
        # Bytes are sent unchanged.
        case.body = draw(_SOUND.map(str.encode) if sound else DOCUMENTS.map(_encoded) | _BYTES)
    elif isinstance(case.body, dict):
        fields = _fields(operation)
        if sound:
            case.body = {name: draw(SOUND[name]) for name in sorted(fields & SOUND.keys())}
            if "names" in case.body:
                case.body["names"] = [named or JOBS[0]["job"]["name"]]
            if "poolName" in (case.path_parameters or {}):
                # The path has it.
                case.body.pop("name", None)
        for name in sorted(case.body.keys() & ODD):
            if not sound and draw(st.integers(0, 3)):
                case.body[name] = draw(ODD[name])
        texts = {job["job"]["name"]: json.dumps(job) for job in JOBS}
        text = texts.get((case.path_parameters or {}).get("jobId", ""))
        if sound and text and "yamlContent" in fields:
            case.body["yamlContent"] = text
        if "condition" in case.body:
            timeout = case.body.get("timeout", _WAITS)
            case.body["timeout"] = min(timeout, _WAITS) if isinstance(timeout, int | float) else timeout
    return case


def _fields(operation: APIOperation) -> set[str]:
    """The fields that a body of JSON has."""
    content = operation.definition.raw["requestBody"]["content"]["application/json"]
    name = content["schema"]["$ref"].rpartition("/")[2]
    return set(operation.schema.raw_schema["components"]["schemas"][name]["properties"])


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
