"""The jobId of REST on the command line, with a kubeconfig and with the service; a pod's name is `pod` everywhere."""

from __future__ import annotations

import pytest

from gpuctl.objects.api_resources import Object
from gpuctl.reading.jobs.job_ids import name_in_id
from gpuctl.reading.jobs.job_objects import Identity, Job, job_id
from properties.scale import part_of
from support.cluster_tools import inference, outcome, training
from support.documents_sent import sent
from support.remote import Remote


@pytest.mark.parametrize("way", part_of(["kubeconfig", "service"], 2))
def test_commands_accept_a_job_id(remote: Remote, way: str) -> None:
    """The id identifies that very job: after its deletion the id is unknown, even if a new job has the same name."""
    place, served = remote.place, remote.served
    here = place.namespace
    made = served.call("POST", "/jobs", status=201, json=sent(training("own-a"), inference("chat"), namespace=here))
    identity, service = (job["jobId"] for job in made["jobs"])
    served.until_running("own-a", here)
    served.until_running("chat", here)
    [pod] = place.pods("own-a")
    place.plane.write_log(here, pod, "a line\n")
    if way == "service":
        remote.login()

    def run(*words: str, code: int | None = 0) -> str:
        typed = place.anywhere if way == "kubeconfig" else remote.typed
        outcome = typed(*words, "-n", here, code=code)
        return outcome.out + outcome.err

    assert run("logs", identity) == "a line\n"
    for words in (("describe", "job"), ("why",), ("wait", "--for", "running")):
        assert "own-a" in run(*words, identity), words
    assert "created" in run("history", identity)
    (row,) = place.anywhere("get", "jobs", identity, "-n", here, "-o", "json").value["items"]
    assert (row["jobId"], row["pod"], row["name"]) == (identity, pod, "own-a")
    assert row["pod"] in run("get", "jobs", identity)
    assert "paused" in run("pause", service)
    assert "resumed" in run("resume", service)
    assert "no job or pod" in run("logs", f"{identity[:-1]}{'1' if identity[-1] == '0' else '0'}", code=1)
    assert "own-a" in run("delete", "job", identity, "--yes")
    place.until(lambda: not place.exists("Job", "own-a"), "the job to be deleted")
    place.apply(training("own-a", job=outcome("complete")))
    for words in (("describe", "job"), ("why",), ("delete", "job", "--yes"), ("pause",), ("rerun", "--yes")):
        assert "there is no job" in run(*words, identity, code=1), words
    assert place.exists("Job", "own-a")


def test_name_equal_to_another_jobs_id_is_ambiguous(remote: Remote) -> None:
    """The command reports the ambiguity and changes neither."""
    place, served = remote.place, remote.served
    here = place.namespace
    identity = served.call("POST", "/jobs", status=201, json=sent(training("own-a"), namespace=here))["jobId"]
    served.call("POST", "/jobs", status=201, json=sent(training(identity), namespace=here))
    remote.login()
    said = f"{identity} is the name of training/{identity} in {here} and the job id of training/own-a in {here}"
    served.until("/jobs", lambda value: value["total"] == 2, namespace=here)
    for words in (("describe", "job"), ("why",), ("logs",), ("delete", "job", "--yes"), ("pause",), ("history",)):
        for typed in (place.anywhere, remote.typed):
            assert said in typed(*words, identity, "-n", here, code=1).err, words
    assert place.exists("Job", "own-a")
    assert place.exists("Job", identity)
    place.anywhere("delete", "job", f"training/{identity}", "--yes", "-n", here)
    assert not place.exists("Job", identity)
    assert place.exists("Job", "own-a")


def test_job_id_depends_on_namespace_and_uid() -> None:
    """Equal for the same object, different for every other; texts of another form are not ids."""
    workload: Object = {"metadata": {"uid": "u"}}
    identity = Identity("team-a", "own-a", "training")
    found = job_id(Job(identity, workload))
    assert name_in_id(found) == "own-a"
    assert found == job_id(Job(identity, None, [workload]))
    others = [Job(identity._replace(namespace="b"), workload), Job(identity, {"metadata": {"uid": "v"}})]
    assert found not in map(job_id, others)
    assert job_id(Job(identity, None)) == ""
    for text in ("own-a", "a-ABCDE", "-abcde", "a-abcdef", "a_abcde"):
        assert name_in_id(text) is None or text == "own-a-abcde"
