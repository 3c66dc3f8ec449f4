"""``GET /jobs``: what the command line lists, narrowed to what may be seen."""

from __future__ import annotations

from support.cluster_tools import POOL, Place, inference, training
from support.served import Served


def test_the_list_is_that_of_the_command_line(served: Served, place: Place) -> None:
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
        assert item["jobId"].startswith(f"{item['name']}-")
    assert served.get("/jobs", namespace=place.namespace, kind="inference")["total"] == 1
    assert served.get("/jobs", namespace=place.namespace, pool=POOL)["total"] == 2
    assert served.get("/jobs", namespace=place.namespace, page=2, pageSize=1)["items"] == found["items"][1:]


def test_others_see_nothing(served: Served, place: Place) -> None:
    place.apply(training("a"))
    served.until("/jobs", lambda value: value["total"] == 1, namespace=place.namespace)
    assert served.get("/jobs", "anna", namespace=place.namespace) == {"total": 0, "items": []}
    assert served.get("/jobs", "vera", namespace=place.namespace)["total"] == 1
    assert served.get("/jobs", "", status=401)["error"] == "Unauthorized"
    assert served.get("/jobs", page=0, status=400)["error"] == "InvalidRequest"


def test_yaml(served: Served, place: Place) -> None:
    """As ``get nodes -o yaml``: the same answer in another form, and bodies in it."""
    import yaml

    for given in ({"headers": {"Accept": "application/yaml"}}, {"params": {"accept": "application/yaml"}}):
        response = served.client().get("/jobs", **given)
        assert response.headers["content-type"] == "application/yaml"
        assert yaml.safe_load(response.text).keys() == {"total", "items"}
    question = {"content": "resource: jobs\naction: create\n", "headers": {"Content-Type": "application/yaml"}}
    assert served.call("POST", "/auth/check", **question)["allowed"] is True
    for body in ("a: [", "- 2024-01-01\n", "\xff"):
        question["content"] = body
        assert served.call("POST", "/auth/check", status=400, **question)["error"]
