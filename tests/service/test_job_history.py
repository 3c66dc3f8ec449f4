"""`GET /jobs/{jobId}/history` and `POST /jobs/{jobId}/rollback`: results of the command line, and access rights."""

from __future__ import annotations

import pytest

from support.cluster_tools import Place, image, inference
from support.documents_sent import sent
from support.served import Served

CONFIRM = {"confirm": "true"}


@pytest.fixture
def chat(served: Served, place: Place) -> str:
    """The id of a model server with three revisions."""
    secret = {"name": "API_TOKEN", "value": "hunter2hunter2"}
    first = inference("chat", environment={**image("v1"), "env": [secret]})
    made = served.call("POST", "/jobs", status=201, json=sent(first, namespace=place.namespace))
    served.until(f"/jobs/{made['jobId']}", lambda value: True)
    changed = served.call(
        "PUT", f"/jobs/{made['jobId']}", json=sent(inference("chat", environment=image("v2"))), params=CONFIRM
    )
    again = served.call(
        "PUT", f"/jobs/{changed['jobId']}", json=sent(inference("chat", environment=image("v3"))), params=CONFIRM
    )
    return str(again["jobId"])


def image_of(place: Place) -> str:
    return str(place.get("Deployment", "chat")["spec"]["template"]["spec"]["containers"][0]["image"])


def test_history_equals_that_of_the_command_line(served: Served, place: Place, chat: str) -> None:
    told = served.call("GET", f"/jobs/{chat}/history")
    typed = place.gpuctl("history", "chat", "-o", "json").value
    assert {**typed, "notes": []} == told
    assert [item["revision"] for item in told["items"]] == [3, 2, 1]
    assert told["items"][0]["changes"] == [
        {"path": "environment.image", "from": "registry.example.com/app:v2", "to": "registry.example.com/app:v3"}
    ]
    whole = served.call("GET", f"/jobs/{chat}/history/1")
    assert whole == place.gpuctl("history", "chat", "--revision", "1", "-o", "json").value
    assert "hunter2" not in str(whole)
    assert whole["masked"] == ["environment.env[API_TOKEN].value"]
    # By every name of the job, and by its own name after it was deleted.
    (pod, *_) = place.running("chat")
    for name in ("chat", pod):
        assert served.call("GET", f"/jobs/{name}/history", params={"namespace": place.namespace}) == told
    for path, error in ((f"/jobs/{chat}/history/9", "NotFound"), ("/jobs/nope/history", "NotFound")):
        assert served.call("GET", path, status=404)["error"] == error
    served.call("GET", f"/jobs/{chat}/history/0", status=400)
    place.gpuctl("delete", "job", "chat", "--yes")
    served.until("/jobs", lambda value: value["total"] == 0, namespace=place.namespace)
    assert served.call("GET", "/jobs/chat/history", params={"namespace": place.namespace}) == told


def test_rollback_restores_a_revision_after_confirmation(served: Served, place: Place, chat: str) -> None:
    path = f"/jobs/{chat}/rollback"
    place.running("chat")
    before = place.records()
    shown = served.call("POST", path, params={"dryRun": "true"})
    assert (shown["status"], shown["jobId"]) == ("validated", chat)
    assert shown["plan"]["questions"][-1].startswith(f"rolls back inference/chat in {place.namespace} to revision 2 (")
    refused = served.call("POST", path, status=409)
    assert refused["error"] == "NotConfirmed"
    assert "; rolls back inference/chat in " in refused["message"]
    masked = served.call("POST", path, status=409, params={"to": "1", **CONFIRM})
    assert masked["error"] == "NotRevertible"
    assert "environment.env[API_TOKEN].value: credentials are not kept" in masked["message"]
    assert served.call("POST", path, status=404, params={"to": "9", **CONFIRM})["error"] == "NotFound"
    assert place.records() == before
    done = served.call("POST", path, params=CONFIRM)
    assert (done["status"], done["name"], done["kind"]) == ("replaced", "chat", "inference")
    assert image_of(place).endswith(":v2")
    (newest, *_) = served.call("GET", f"/jobs/{done['jobId']}/history")["items"]
    assert (newest["cause"], newest["to"], newest["who"]) == ("rolled back", 2, "admin")
    # The id belonged to the deleted job; a deleted job is restored by its name.
    query = {"namespace": place.namespace}
    place.gpuctl("delete", "job", "chat", "--yes")
    served.until("/jobs", lambda value: value["total"] == 0, **query)
    made = served.call("POST", "/jobs/chat/rollback", params={"to": "3", **query, **CONFIRM})
    assert (made["status"], image_of(place)[-3:]) == ("created", ":v3")
    served.call("GET", f"/jobs/{made['jobId']}")
