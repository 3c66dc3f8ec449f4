"""`GET /jobs`: the jobs that the command line lists, limited to those the user may see."""

from __future__ import annotations

import json
from typing import Any

from support.cluster_tools import POOL, Place, compute, inference, outcome, pool_node, training
from support.served import Served


def test_list_equals_that_of_the_command_line(served: Served, place: Place) -> None:
    place.apply(training("a"), inference("b"))
    place.running("a", "b")
    rows = {item["name"]: item for item in place.gpuctl("get", "jobs", "--jobs", "-o", "json").value["items"]}
    found = served.until(
        "/jobs", lambda value: [item["status"] for item in value["items"]] == ["running"] * 2, namespace=place.namespace
    )
    assert found["total"] == 2
    for item in found["items"]:
        row = rows[item["name"]]
        for field in ("kind", "pool", "gpu", "gpuType", "createdAt", "startedAt", "namespace"):
            assert item[field] == row[field], field
        assert item["statusWord"] == row["status"] == "Running"
        assert item["jobId"].startswith(f"{item['name']}-")
    assert served.get("/jobs", namespace=place.namespace, kind="inference")["total"] == 1
    assert served.get("/jobs", namespace=place.namespace, pool=POOL)["total"] == 2
    assert served.get("/jobs", namespace=place.namespace, page=2, pageSize=1)["items"] == found["items"][1:]


def test_list_is_sorted_over_all_pages(served: Served, place: Place) -> None:
    for name, gpus in (("small", 1), ("large", 2), ("none", 0)):
        place.apply(training(name, resources={"gpu": gpus}))
    served.until("/jobs", lambda value: value["total"] == 3, namespace=place.namespace)
    newest = [item["name"] for item in served.get("/jobs", namespace=place.namespace)["items"]]
    for sort, expected in (("newest", newest), ("oldest", newest[::-1]), ("gpu", ["large", "small", "none"])):
        pages = [served.get("/jobs", namespace=place.namespace, sort=sort, page=page, pageSize=1) for page in (1, 2, 3)]
        assert [page["items"][0]["name"] for page in pages] == expected
    assert served.get("/jobs", sort="cost", status=400)["error"] == "InvalidRequest"


def test_fit_of_waiting_jobs_is_filtered_and_in_pages(served: Served, place: Place) -> None:
    for document in (training("one", resources={"gpu": 100}), training("two", resources={"gpu": 100})):
        place.apply(document, flags=("--no-probe",))
    place.apply(inference("serve", resources={"gpu": 100}), flags=("--no-probe",))
    here = {"namespace": place.namespace}
    whole = served.until("/fit", lambda value: value["total"] == 3, **here)["jobs"]
    listed = served.until("/jobs", lambda value: value["total"] == 3, **here)
    ids = {item["name"]: item["jobId"] for item in listed["items"]}

    def found(**query: Any) -> tuple[int, list[str]]:
        value = served.call("GET", "/fit", params={**here, **query})
        assert all(job in whole for job in value["jobs"])
        return value["total"], sorted(job["name"] for job in value["jobs"])

    assert found(name=f"{ids['one']}, serve") == (2, ["one", "serve"])
    assert found(kind="training", pool=POOL) == (2, ["one", "two"])
    assert found(kind="inference", name="one") == (0, [])
    assert [served.get("/fit", **here, page=page, pageSize=2)["jobs"] for page in (1, 2, 3)] == [
        whole[:2],
        whole[2:],
        [],
    ]
    assert served.get("/fit", pageSize=0, status=400)["error"] == "InvalidRequest"


def test_fit_of_a_document_names_as_many_holders_as_asked_for(served: Served, place: Place) -> None:
    own = {"pool": place.namespace, "gpu": 32}
    with pool_node(place.plane, f"{place.namespace}-held", **{"runwhere.ai/pool": place.namespace}):
        place.apply(training("first", resources=own), training("second", resources=own))
        served.until_running("first", place.namespace)
        served.until_running("second", place.namespace)
        document = training("third", resources=own, job={"namespace": place.namespace})
        for query, holders in (({}, 2), ({"holders": 1}, 1), ({"holders": 0}, 0)):
            (job,) = served.call("POST", "/fit", params=query, json={"yamlContent": json.dumps(document)})["jobs"]
            assert (job["verdict"], len(job["heldBy"])) == ("fits-when-empty", holders)


def test_jobs_of_a_sweep_have_their_values(served: Served, place: Place) -> None:
    document = training("tune", environment={"args": ["{{sweep.lr}}"]}, sweep={"lr": ["1e-5", "2e-5"]})
    place.apply(document, training("other"))
    asked = {"namespace": place.namespace, "sweep": "tune", "byJob": "true"}
    found = served.until("/pods", lambda value: value["total"] == 2, **asked)
    assert [(item["name"], item["sweepValues"]) for item in found["items"]] == [
        ("tune-0", {"lr": "1e-5"}),
        ("tune-1", {"lr": "2e-5"}),
    ]
    assert served.get("/pods", namespace=place.namespace, sweep="a,b", status=400)["error"] == "InvalidRequest"


def test_users_list_only_their_own_namespaces(served: Served, place: Place) -> None:
    place.apply(training("a"))
    served.until("/jobs", lambda value: value["total"] == 1, namespace=place.namespace)
    assert place.namespace not in {item["namespace"] for item in served.get("/jobs", "anna")["items"]}
    assert served.get("/jobs", "anna", namespace=place.namespace, status=403)["error"] == "Forbidden"
    assert served.get("/jobs", "otto", pool="another", status=403)["error"] == "Forbidden"
    assert served.get("/jobs", "vera", namespace=place.namespace)["total"] == 1
    assert served.get("/jobs", "", status=401)["error"] == "Unauthorized"
    assert served.get("/jobs", page=0, status=400)["error"] == "InvalidRequest"


def test_pages_and_filters(served: Served, place: Place) -> None:
    """Pages contain every job once, newest first; filters select what the command line's filters select."""
    place.apply(*(training(f"p-{number}") for number in range(5)), compute("web", resources={"pool": "elsewhere"}))
    place.running(*(f"p-{number}" for number in range(5)))
    settled = ["pending", *["running"] * 5]
    found = served.until(
        "/jobs", lambda value: sorted(item["status"] for item in value["items"]) == settled, namespace=place.namespace
    )["items"]
    order = [(item["createdAt"], item["name"]) for item in found]
    assert order == sorted(sorted(order, key=lambda key: key[1]), key=lambda key: key[0], reverse=True)
    pages = [served.get("/jobs", namespace=place.namespace, page=number, pageSize=4) for number in (1, 2, 3)]
    assert [len(page["items"]) for page in pages] == [4, 2, 0]
    assert {page["total"] for page in pages} == {6}
    assert [item["jobId"] for page in pages for item in page["items"]] == [item["jobId"] for item in found]
    for field, value in (("kind", "training"), ("pool", "elsewhere"), ("status", "pending"), ("kind", "notebook")):
        listed = place.gpuctl("get", "jobs", "--jobs", "-o", "json", f"--{field}", value).value["items"]
        query = {"namespace": place.namespace, field: value}
        answer = served.client().get("/jobs", params=query).json()
        assert {item["name"] for item in answer["items"]} == {item["name"] for item in listed}
        assert answer["total"] == len(listed)
    for wrong in ({"page": 0}, {"pageSize": 0}, {"pageSize": 1001}, {"page": "x"}, {"page": 2**40}):
        assert served.get("/jobs", status=400, **wrong)["error"] == "InvalidRequest"


def test_progress_is_read_from_the_log(served: Served, place: Place) -> None:
    """Progress is null if the log shows none or the job is not a training; 100 after success."""
    place.apply(
        training("bar"),
        training("epochs"),
        training("silent"),
        training("over", job=outcome("complete")),
        inference("serves"),
    )
    said = {
        "bar": "  3%|1  | 3/100\nloss 0.5\n 65%|######5   | 65/100 [00:10<00:05]\n",
        "epochs": "2024-06-01 [INFO] Epoch 1/3, Step 100, Loss: 0.87\n",
        "silent": "nothing to say\n",
        "serves": "99%|#########9| 99/100\n",
    }
    for name, text in said.items():
        for pod in place.running(name):
            place.plane.write_log(place.namespace, pod, text)
    wanted = {"bar": 65, "epochs": 33, "silent": None, "over": 100, "serves": None}
    found = served.until(
        "/jobs",
        lambda value: {item["name"]: item["progress"] for item in value["items"]} == wanted,
        namespace=place.namespace,
    )
    assert found["total"] == 5


def test_unknown_filter_values_are_rejected(served: Served) -> None:
    """Values that no job can have are rejected; Kubernetes's words are accepted in either case."""
    for query, hint in (
        ({"kind": "trainning"}, "did you mean `training`?"),
        ({"kind": "Training"}, "did you mean `training`?"),
        ({"status": "runing"}, "did you mean `running`?"),
        ({"status": "bogus"}, None),
    ):
        refused = _refused(served, query)
        assert (refused["error"], refused.get("hint")) == ("InvalidRequest", hint), query
    for path in ("/pods", "/fit"):
        assert _refused(served, {"kind": "trainning"}, path)["hint"] == "did you mean `training`?"
    for status in ("running", "Running", "Partially Running", "crashloopbackoff", "Queued", "paused"):
        assert served.client().get("/jobs", params={"status": status}).status_code == 200


def _refused(served: Served, query: dict[str, str], path: str = "/jobs") -> dict[str, Any]:
    answer = served.client().get(path, params=query)
    assert answer.status_code == 400, answer.text
    found: dict[str, Any] = answer.json()
    return found
