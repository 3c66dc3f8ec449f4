"""The user who applied a job last, in confirmations, lists and descriptions."""

from __future__ import annotations

import json

from support.cluster_tools import Place, image, inference, training

BOB = "bob@example.com"


def test_plan_names_the_other_user_who_applied_a_job(place: Place) -> None:
    """Replace, prune and JSON name another user, but not the caller. The next change records its own user."""
    set_options = ("--set", "all", "--allow-source")
    place.apply(training("sft"), inference("chat"), flags=set_options)
    place.running("sft", "chat")
    changed = training("sft", environment=image("v2"))
    own = place.apply(changed, inference("chat"), flags=set_options, code=2)
    assert "its progress is lost" in own.err
    assert "applied by" not in own.err

    rows = json.loads(place.gpuctl("get", "jobs", "-o", "json").out)["items"]
    assert {row["appliedBy"] for row in rows} == {"admin"}
    wide = place.gpuctl("get", "jobs", "-o", "wide").out
    assert "APPLIED BY" in wide
    assert wide.count("admin") == 2
    assert "Applied by:" in place.gpuctl("describe", "job", "sft").out
    assert place.gpuctl("describe", "job", "sft", "-o", "json").value["appliedBy"] == "admin"

    for name, kind in (("sft", "Job"), ("chat", "Deployment")):
        place.patch(kind, name, {"metadata": {"annotations": {"runwhere.ai/applied-by": BOB}}}, manager="gpuctl")
    other = place.apply(changed, inference("chat"), flags=set_options, code=2)
    assert f"its progress is lost; applied by {BOB}" in other.err
    assert [step["appliedBy"] for step in place.plan(changed).value["steps"] if step["kind"] == "Job"] == [BOB]
    pruned = place.apply(training("sft"), flags=(*set_options, "--prune"), code=2)
    assert f"it stops serving; applied by {BOB}" in pruned.err
    assert set(place.plan(training("sft"), inference("chat")).actions.values()) == {"unchanged"}
    assert "no drift" in place.gpuctl("drift", place.file(training("sft"), inference("chat"))).err

    place.apply(training("sft", job={"description": "new"}))
    assert place.gpuctl("describe", "job", "sft", "-o", "json").value["appliedBy"] == "admin"
