"""Hidden names: text cannot distinguish or count objects that the caller may not see; equality and sorting can."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from fractions import Fraction

import pytest

from gpuctl.api.queue_answers import QueueDetail
from gpuctl.apply.plan.plan import Plan
from gpuctl.capacity.admission.quota_charges import Shortfall
from gpuctl.capacity.fit.waiting_fit import _placement_key
from gpuctl.capacity.kueue.cohorts import FlavorResource
from gpuctl.capacity.kueue.queue_quota import QueueHeadroom
from gpuctl.language.settings import Settings
from gpuctl.objects.hidden_names import OTHERS, HiddenName, is_hidden, prefixed, unique_names
from gpuctl.objects.ownership_metadata import Records
from gpuctl.reading.nodes.node_gpus import PlatformGpus
from gpuctl.reading.queues.queue_position import KueueLists, QueueClaim, QueuePosition, claim_of
from gpuctl.reading.queues.queue_rows import read_queues
from gpuctl.reading.why.finding import in_namespace
from gpuctl.reading.why.pod_refusals import _end, _Holder
from gpuctl.reading.why.queue_causes import _fix
from gpuctl_server.changes.change_request import Confirmation
from gpuctl_server.http.merged_answers import merge_hidden
from gpuctl_server.mirror.object_redaction import ObjectRedactor

KEYS = Records(**{field: f"example.com/{field}" for field in Records._fields})
Sentence = Callable[[str, str], str]
TEXTS_OF_TWO_NAMES: list[Sentence] = [
    lambda one, other: f"{one} and {other} hold 16 GPUs",
    lambda one, other: f"evicts {one!s}, then {other:>20}",
    lambda one, other: "; ".join(sorted([one, other])),
    lambda one, other: f"{one} {other}",
    lambda one, other: "%s before %s" % (one, other),  # noqa: UP031
    lambda one, other: json.dumps({"held": [one, {one: other}]}),
    lambda one, other: one.upper() + other.replace("o", "x") + one[:3],
    lambda one, other: f"{prefixed('Job/', one)} in {other}",
]


class Visibility:
    """The visibility of a caller with access to namespace `mine`."""

    pool_label = "example.com/pool"

    def sees(self, obj: dict) -> bool:
        return self.sees_namespace(obj["metadata"]["namespace"])

    def sees_namespace(self, namespace: str) -> bool:
        return namespace == "mine"

    def sees_pool(self, pool: str) -> bool:
        return False


def redacted_pod(name: str, namespace: str, redactor: ObjectRedactor) -> dict:
    pod = {
        "metadata": {
            "name": f"{name}-0",
            "namespace": namespace,
            "labels": {"app": name, "team": "x"},
            "ownerReferences": [{"kind": "Job", "name": name, "controller": True}],
        },
        "spec": {"nodeName": "node-1", "nodeSelector": {"example.com/pool": "sealed"}},
    }
    return redactor.redacted(pod)


@pytest.fixture
def redactor() -> ObjectRedactor:
    return ObjectRedactor(Visibility(), frozenset({"node-1"}))


@pytest.mark.parametrize("sentence", TEXTS_OF_TWO_NAMES)
def test_text_does_not_distinguish_hidden_names(sentence: Sentence) -> None:
    assert sentence(HiddenName(1), HiddenName(2)) == sentence(HiddenName(7), HiddenName(8)) == sentence(OTHERS, OTHERS)


def test_hidden_names_differ_as_values() -> None:
    one, other = HiddenName(1), HiddenName(2)
    assert one == HiddenName(1) == copy.deepcopy(one)
    assert len({one, other, HiddenName(1), OTHERS}) == 3
    assert one not in (other, OTHERS)
    assert one != OTHERS
    assert one != OTHERS
    assert sorted([other, "a", one]) == [one, other, "a"]
    assert one < other < "a"
    assert prefixed("Job/", one) == prefixed("Job/", HiddenName(1)) != prefixed("Job/", other)
    assert prefixed("Job/", "a") == "Job/a"
    assert all(map(is_hidden, (one, prefixed("Job/", one), f"Job/{one}")))
    assert not is_hidden("a")


def test_redacted_object_has_hidden_names(redactor: ObjectRedactor) -> None:
    one, same, other = (redacted_pod(*about, redactor) for about in (("a", "theirs"), ("a", "theirs"), ("b", "theirs")))
    assert one == same
    assert one["metadata"]["name"] != other["metadata"]["name"]
    assert one["metadata"]["namespace"] == other["metadata"]["namespace"]
    assert one["metadata"]["ownerReferences"][0]["name"] == one["metadata"]["labels"]["app"]
    text = json.dumps([one, other])
    assert not [word for word in ("theirs", "a-0", "b-0", "node-1", "sealed", '"a"', '"b"') if word in text]
    assert json.dumps(one) == json.dumps(other)
    assert redacted_pod("a", "mine", redactor)["metadata"]["name"] == "a-0"


def test_pending_pods_for_different_hidden_nodes_differ_in_kind() -> None:
    one, other = ({"wants": {"nodeSelector": {"host": HiddenName(number)}}} for number in (1, 2))
    assert _placement_key(one) != _placement_key(other)
    assert _placement_key(one) == _placement_key(copy.deepcopy(one))


def test_answers_merge_hidden_rows() -> None:
    held = [
        {
            "namespace": HiddenName(number),
            "job": prefixed("Job/", HiddenName(number + 10)),
            "priority": 5,
            "pods": 1,
            "createdAt": "2026-01-01T00:00:00Z",
            "gpu": 8,
        }
        for number in (1, 2)
    ]
    reason = f"held by {' and '.join(unique_names(in_namespace(item['job'], item['namespace']) for item in held))}"
    proofs = [{"text": f"of {HiddenName(1)}", "about": "pod/x"}, {"text": "of mine", "about": "pod/y"}]
    assert merge_hidden({"heldBy": held, "reason": reason, "evidence": proofs}) == {
        "heldBy": [{"namespace": OTHERS, "job": OTHERS, "priority": None, "pods": None, "createdAt": None, "gpu": 16}],
        "reason": f"held by {OTHERS}",
        "evidence": [{"text": "of mine", "about": "pod/y"}],
    }


TEXTS_OF_SEVERAL_NAMES: list[Callable[[list[str]], str]] = [
    lambda names: f"{len(names)} of them: first {', then '.join(names)}",
    lambda names: "\n".join(f"{number}. {name}" for number, name in enumerate(names)),
    lambda names: f"neither {' nor '.join(names)} ({len(names) - 1} more)",
]
"""Ways to build a text that gpuctl does not use yet."""


@pytest.mark.parametrize("sentence", TEXTS_OF_SEVERAL_NAMES)
def test_text_does_not_count_hidden_names(sentence: Callable[[list[str]], str]) -> None:
    def text_for(number: int) -> str:
        pairs = [("a", "mine"), *((prefixed("Job/", HiddenName(one)), HiddenName(-one)) for one in range(number))]
        return sentence(unique_names(in_namespace(*pair) for pair in pairs))

    assert text_for(1) == text_for(2) == text_for(5) == sentence(["a in mine", OTHERS])
    assert unique_names(["a", "a"]) == ["a", "a"], "visible names are kept"
    assert unique_names([f"{HiddenName(1)} in mine", f"{HiddenName(2)} in mine"]) == [f"{OTHERS} in mine"]


def test_queue_hint_does_not_count_hidden_jobs() -> None:
    admission = {"metadata": {"name": "w"}}

    two = Fraction(2)
    room = QueueHeadroom(FlavorResource("any", "cpu"), two, None, two, Fraction(0), two, asked=two, largest=two)

    def text_for(number: int, cohort: str) -> str:
        claims = [
            QueueClaim(HiddenName(one), prefixed("Job/", HiddenName(-one)), 0, "", {"cpu": Fraction(1 + one)})
            for one in range(1, number + 1)
        ]
        return _fix(admission, QueuePosition("q", "cq", cohort, "", 0, {}, [room], holders=claims), "mine")

    for cohort in ("", "lab"):
        assert text_for(1, cohort) == text_for(2, cohort) == text_for(5, cohort)
        assert text_for(1, cohort).startswith(f"wait for {OTHERS} to end, or ask for less;")


def test_hidden_job_in_a_queue_has_no_name(redactor: ObjectRedactor) -> None:
    """The spec of Kueue's Workload contains the labels of the job's pods."""
    labels = {"app": "secret", KEYS.job_type: "training"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": []}}
    workload = {
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "theirs"},
        "spec": {"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": template}]},
    }
    shown = redactor.redacted(workload)
    assert "secret" not in json.dumps(shown)
    claim = claim_of(shown, KEYS)
    assert (claim.name, claim.namespace) == (
        prefixed("training/", redactor._hidden("secret")),
        redactor._hidden("theirs"),
    )


def test_quota_hint_does_not_count_hidden_jobs() -> None:
    """The text shows neither the kinds of the hidden jobs nor their owners."""

    def text_for(number: int) -> str:
        amounts = {"requests.cpu": Fraction(6) / number}
        held = [_Holder("training", HiddenName(one), f"owner-{one}", amounts) for one in range(number)]
        lack = Shortfall("q", "requests.cpu", Fraction(6), Fraction(6), Fraction(0), Fraction(6))
        return _end(held, [lack], 1)

    assert text_for(1) == text_for(2) == text_for(3) == f"wait until {OTHERS} has ended, "


def test_chinese_sentence_has_chinese_words_for_hidden_objects() -> None:
    """Names in JSON stay, evidence about hidden objects stays hidden, and the question that was shown is confirmed."""
    said = "占用者：training/a (2)、Job/(others) (16)"
    answer = {"reason": said, "job": OTHERS, "evidence": [{"text": f"{OTHERS} 在运行"}], "fix": "ask (others)"}
    shown = {"reason": "占用者：training/a (2)、Job/（其他）(16)", "job": OTHERS, "evidence": [], "fix": "ask (others)"}
    assert merge_hidden(answer) == shown
    assert Confirmation(texts=[str(shown["reason"])]).covers(Plan(confirm=[said]))


def test_shared_queue_shows_only_visible_jobs(redactor: ObjectRedactor) -> None:
    """Two namespaces use one ClusterQueue, with LocalQueues and jobs of the same names."""

    def workload(name: str, namespace: str, *, admitted: bool) -> dict:
        labels = {"app": name, KEYS.job_type: "training"}
        status = {"conditions": [{"type": "QuotaReserved", "status": "True"}], "admission": {"clusterQueue": "shared"}}
        return {
            "kind": "Workload",
            "metadata": {
                "name": f"job-{name}",
                "namespace": namespace,
                "creationTimestamp": "2024-06-01T09:00:00Z" if namespace == "theirs" else "2024-06-01T10:00:00Z",
                "ownerReferences": [{"kind": "Job", "name": name, "controller": True}],
            },
            "spec": {"queueName": "team", "podSets": [{"count": 1, "template": {"metadata": {"labels": labels}}}]},
            "status": status if admitted else {},
        }

    places = [("mine", "team"), ("theirs", "team"), ("theirs", "theirs-secret")]
    local = [
        {"kind": "LocalQueue", "metadata": {"namespace": place, "name": name}, "spec": {"clusterQueue": "shared"}}
        for place, name in places
    ]
    jobs = [
        workload("own" if place == "mine" else "secret", place, admitted=admitted)
        for place in ("theirs", "mine")
        for admitted in (False, True)
    ]
    cluster = {"kind": "ClusterQueue", "metadata": {"name": "shared"}, "spec": {"resourceGroups": []}}
    lists = KueueLists(
        [redactor.redacted(item) for item in jobs], [redactor.redacted(item) for item in local], [cluster], []
    )
    [queue] = read_queues(lists, KEYS)
    answer = QueueDetail.of(queue, PlatformGpus(Settings()), []).as_json()
    assert [(job["position"], job["name"], job["namespace"]) for job in answer["waiting"]] == [(2, "own", "mine")]
    assert [job["name"] for job in answer["admitted"]] == ["own"]
    assert (answer["waitingJobs"], answer["admittedJobs"]) == (1, 1)
    assert [(place["namespace"], place["name"]) for place in answer["localQueues"]] == [("mine", "team")]
    assert not [word for word in ("theirs", "secret", OTHERS) if word in json.dumps(answer)]
