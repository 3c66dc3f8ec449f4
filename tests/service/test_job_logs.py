"""`GET /jobs/{jobId}/logs`: the lines that the command line prints, and access rights."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx

from gpuctl.reading.logs.log_parsing import instant
from support.cluster_tools import Place, inference, training
from support.served import Served


def job_id(served: Served, place: Place, name: str, pods: int = 1) -> str:
    """Return the id of a job once the service lists its pods as running."""
    return str(served.until_running(name, place.namespace, pods)["jobId"])


def same_as_command_line(served: Served, place: Place, path: str, *arguments: str, **query: Any) -> dict[str, Any]:
    """Return the service's answer; assert that the command line prints the same."""
    value: dict[str, Any] = served.get(f"/jobs/{path}/logs", **query)
    told = place.gpuctl("logs", *arguments, "-o", "json", code=None).value
    assert value["lines"] == told["logs"]
    assert value["logs"] == [line["text"] for line in told["logs"]]
    assert value["lastTimestamp"] == told["lastTimestamp"]
    assert value["problems"] == told["problems"]
    return value


def test_log_equals_that_of_the_command_line(served: Served, place: Place) -> None:
    place.apply(training())
    [pod] = place.running("train")
    place.plane.write_log(place.namespace, pod, "".join(f"line {number}\n" for number in range(150)))
    own = job_id(served, place, "train")
    value = same_as_command_line(served, place, own, "train", "--tail=100")
    assert value.keys() == {"logs", "lastTimestamp", "lines", "problems"}
    assert value["logs"] == [f"line {number}" for number in range(50, 150)]
    for query, arguments in (
        ({"tail": 3}, ["--tail=3"]),
        ({"tail": 0}, ["--tail=0"]),
        ({"tail": 1000}, ["--tail=all"]),
        ({"since": "1h"}, ["--since=1h"]),
        ({"since": "2030-01-01T00:00:00Z"}, ["--since-time=2030-01-01T00:00:00Z"]),
        ({"since": "2030-01-01T00:00:00 08:00"}, ["--since-time=2030-01-01T00:00:00+08:00"]),
        ({"tail": 150, "grep": "e 14"}, ["--grep=e 14"]),
        ({"pod": pod, "tail": 2}, ["--pod", pod, "--tail=2"]),
        ({"container": "main", "tail": 2}, ["-c", "main", "--tail=2"]),
        ({"previous": "true"}, ["-p"]),
    ):
        same_as_command_line(served, place, own, "train", *arguments, **query)
    for name in (own, "train", pod):
        assert served.get(f"/jobs/{name}/logs", namespace=place.namespace, tail=1)["logs"] == ["line 149"]


def test_lines_of_several_pods_are_merged_by_time(served: Served, place: Place) -> None:
    place.apply(training(resources={"nodes": 2}))
    pods = sorted(place.running("train", pods=2))
    for pod in pods:
        place.plane.write_log(place.namespace, pod, "".join(f"{pod} {number}\n" for number in range(120)))
    own = job_id(served, place, "train", 2)
    value = same_as_command_line(served, place, own, "train", "--tail=100")
    times = [instant(line["timestamp"]) for line in value["lines"]]
    assert len(times) == 200
    assert times == sorted(times)
    one = same_as_command_line(served, place, own, "train", "--tail=1", "--pod=1", tail=1, pod="1")
    assert one["logs"] == [f"{pods[1]} 119"]
    named = served.get(f"/jobs/{pods[0]}/logs", tail=1)
    assert named["logs"] == [f"{pods[0]} 119"]
    refused = served.get(f"/jobs/{own}/logs", status=404, pod="zzz")
    assert refused["message"] == "training/train has no pod zzz"
    assert served.get(f"/jobs/{own}/logs", status=404, container="side")["error"] == "NotFound"


def test_grep_is_a_literal_text(served: Served, place: Place) -> None:
    """`grep` is a literal text: a pattern with catastrophic backtracking costs nothing."""
    place.apply(training())
    [pod] = place.running("train")
    evil = "(a+)+$"
    place.plane.write_log(place.namespace, pod, f"{'a' * 5000}!\nsaid {evil}\n\xff\n".encode("latin-1"))
    own = job_id(served, place, "train")
    assert served.get(f"/jobs/{own}/logs", grep=evil)["logs"] == [f"said {evil}"]
    assert served.get(f"/jobs/{own}/logs", tail=1)["logs"] == ["�"]


def events_of(served: Served, place: Place, name: str, **query: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return the name and data of each Server-Sent Event of a log that is not followed."""
    headers = {"Accept": "text/event-stream", "Authorization": f"Bearer {served.tokens['admin']}"}
    url, parameters = f"{served.url}/api/v1/jobs/{name}/logs", {"namespace": place.namespace, **query}
    answer = httpx.get(url, params=parameters, headers=headers, timeout=60)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    found = []
    for part in answer.text.split("\n\n")[:-1]:
        head, _, data = part.rpartition("data: ")
        found.append((head.removeprefix("event: ").strip() or "message", json.loads(data)))
    return found


def test_event_stream_contains_all_lines(served: Served, place: Place) -> None:
    """More lines than a JSON answer may have, non-UTF-8 bytes, and the names of pods without a log."""
    place.apply(training())
    [pod] = place.running("train")
    text = "".join(f"{number} {'x' * 1000}\n" for number in range(20_000)).encode()
    place.plane.write_log(place.namespace, pod, text + b"caf\xe9 \xef\xbf\xbd\n" + b"y" * 5_000_000 + b"\nend\n")
    own = job_id(served, place, "train")
    first, *lines, last = events_of(served, place, own, since="1970-01-01T00:00:00Z")
    assert first == ("begin", {"pods": [pod], "missing": []})
    assert last == ("end", {"code": 1000, "reason": "these are all lines"})
    assert {name for name, _ in lines} == {"message"}
    values = [value for _, value in lines]
    assert [value["text"].split()[0] for value in values[:20_000]] == [str(number) for number in range(20_000)]
    odd, *pieces, end = values[20_000:]
    assert (odd["text"], base64.b64decode(odd["base64"])) == ("caf\ufffd \ufffd", b"caf\xe9 \xef\xbf\xbd")
    assert "".join(piece["text"] for piece in pieces) == "y" * 5_000_000
    assert [piece.get("ends", True) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert end == {"pod": pod, "container": "main", "timestamp": end["timestamp"], "text": "end"}
    assert [value["text"] for _, value in events_of(served, place, own, tail=1)[1:-1]] == ["end"]
    refused = {"Accept": "text/event-stream"}
    assert served.call("GET", f"/jobs/{own}/logs?container=side", status=404, headers=refused)["error"] == "NotFound"


def test_empty_log_is_answered_with_its_reason(served: Served, place: Place) -> None:
    """The job exists, so the answer is not 404; the reason of the empty log is that of the command line."""
    place.apply(training(job={"annotations": {"gpuctl.test/outcome": "image-not-found"}}))
    place.until(lambda: "ImagePullBackOff" in place.kubectl("get", "pods"), "the image pull to fail")
    value = served.until(
        "/jobs/train/logs", lambda value: "ImagePullBackOff" in json.dumps(value), namespace=place.namespace
    )
    assert (value["logs"], value["lines"], value["lastTimestamp"]) == ([], [], None)
    [problem] = value["problems"]
    refused = place.gpuctl("logs", "train", code=1)
    assert refused.err.startswith(f"error: {problem['message']}")
    headers = {"Accept": "text/event-stream"}
    path = f"/jobs/train/logs?namespace={place.namespace}"
    answer = served.call("GET", path, status=404, headers=headers)
    assert (answer["error"], answer["message"]) == ("NoLog", problem["message"])


def test_log_answers_have_a_size_limit(served: Served, place: Place) -> None:
    place.apply(training())
    [pod] = place.running("train")
    place.plane.write_log(place.namespace, pod, "".join(f"{number} {'x' * 1000}\n" for number in range(20_000)))
    own = job_id(served, place, "train")
    value = served.get(f"/jobs/{own}/logs", tail=100_000)
    assert value["logs"][-1].startswith("19999 ")
    lost = 20_000 - len(value["logs"])
    assert lost > 0
    assert value["problems"][0]["message"].startswith(f"the oldest {lost} lines are left out")
    assert len(served.get(f"/jobs/{own}/logs", tail=2000)["logs"]) == 2000


def test_invalid_log_queries_are_rejected(served: Served, place: Place) -> None:
    place.apply(training())
    served.until("/jobs", lambda value: value["total"] == 1, namespace=place.namespace)
    queries: list[dict[str, Any]] = [
        {"tail": -1},
        {"tail": 100_001},
        {"tail": "all"},
        {"since": "yesterday"},
        {"since": "0s"},
        {"since": "2024-13-01T00:00:00Z"},
        {"grep": "x" * 257},
        {"pod": "x" * 254},
        {"follow": "perhaps"},
    ]
    for query in queries:
        refused = served.get("/jobs/train/logs", status=400, namespace=place.namespace, **query)
        assert refused["error"] == "InvalidRequest", query


def test_logs_need_rights(served: Served, place: Place) -> None:
    """Invisible jobs get the 404 of missing jobs; a foreign namespace is forbidden, whether it exists or not."""
    place.apply(training())
    [pod] = place.running("train")
    own = job_id(served, place, "train")
    for name in (own, "train", pod):
        hidden = served.get(f"/jobs/{name}/logs", "anna", status=404)
        assert hidden["message"] == f"there is no job {name}"
    absent = served.get("/jobs/nothing/logs", "anna", status=404)
    assert absent["message"] == "there is no job nothing"
    for namespace in (place.namespace, "never-there"):
        refused = served.get(f"/jobs/{own}/logs", "anna", status=403, namespace=namespace)
        assert refused["error"] == "Forbidden"
        assert refused["message"].endswith("the namespaces of this token are team-a")
    assert served.get(f"/jobs/{own}/logs", "vera", tail=1)["logs"]
    for header in ("", "Bearer nonsense", f"Basic {base64.b64encode(b'a:b').decode()}"):
        headers = {"Authorization": header} if header else {}
        assert httpx.get(f"{served.url}/api/v1/jobs/{own}/logs", headers=headers).status_code == 401
    inside = {"token": served.tokens["admin"], "access_token": served.tokens["admin"]}
    assert httpx.get(f"{served.url}/api/v1/jobs/{own}/logs", params=inside).status_code == 401
    assert served.tokens["admin"] not in "".join(served.log)


def test_log_of_the_previous_container_is_returned(served: Served, place: Place) -> None:
    """The log of the container before its restart."""
    place.apply(inference())
    [pod] = place.running("serve")
    place.plane.write_log(place.namespace, pod, "before\n", previous=True)
    place.plane.write_log(place.namespace, pod, "now\n")
    own = job_id(served, place, "serve")
    place.plane.annotate(place.namespace, pod, outcome="crash", exit_code="3")
    place.until(
        lambda: "before" in place.gpuctl("logs", "serve", "--previous", code=None).out, "the container to restart"
    )
    served.until(f"/jobs/{own}/logs", lambda value: value["logs"] == ["before"], previous="true")
