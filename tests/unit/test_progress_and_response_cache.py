"""Progress read from a log, the response cache, and malformed objects in the mirror."""

from __future__ import annotations

import pytest

from gpuctl.hints import RecoverHint, Surface, set_request_surface
from gpuctl.language.sentences import Translation, say, set_translation
from gpuctl_server.access.caller import TokenCaller
from gpuctl_server.access.rights import Rights
from gpuctl_server.limits.response_cache import ResponseCache, encode
from gpuctl_server.limits.shared_answers import SharedAnswers
from gpuctl_server.mirror.progress import last_percentage
from gpuctl_server.mirror.trimming import SkippedObject, malformed_reason


@pytest.mark.parametrize(
    ("text", "percent"),
    [
        ("", None),
        ("loss 0.5\nnothing of it\n", None),
        (" 65%|######5   | 65/100 [00:10<00:05]\n", 65),
        ("  3%|  | 3/100\r 40%|#   | 40/100\r 65.4%|##  | 65/100", 65),
        ("2024-06-01 10:06:30 [INFO] Epoch 1/3, Step 100, Loss: 0.87", 33),
        ("EPOCH [2/4] done", 50),
        ("epoch: 3 / 4", 75),
        ("step 650/1000\n", 65),
        ("Step (999/1000)", 99),
        ("Epoch 1/3\nstep 10/1000\n", 1),
        (" 10%|# |\nEpoch 3/3\n", 100),
        ("Epoch 4/3", None),
        ("Epoch 1/2\nEpoch 4/0\n", 50),
        ("GPU 99% busy", None),
        ("999%|", None),
        ("misstep 1/2, epochs 1/2", None),
        ("Epoch " + "9" * 4000 + "/3", None),
        ("downloaded 3/4 files", None),
    ],
)
def test_last_percentage_of_a_log(text: str, percent: int | None) -> None:
    """The last plausible progress counts; a number without its keyword is ignored."""
    assert last_percentage(text) == percent


def test_response_cache_evicts_the_least_recently_used() -> None:
    kept = ResponseCache(most=100)
    kept.keep("a", (1,), b"x" * 40)
    kept.keep("b", (1,), b"y" * 40)
    assert kept.find("a", (1,)) == b"x" * 40
    assert kept.find("a", (2,)) is None, "the entry is of another version"
    kept.find("a", (1,))
    kept.keep("c", (1,), b"z" * 40)
    assert kept.find("b", (1,)) is None, "the least recently used entry is evicted first"
    assert kept.find("a", (1,)) is not None
    kept.keep("a", (2,), b"w" * 10)
    assert (kept.find("a", (1,)), kept.find("a", (2,))) == (None, b"w" * 10)
    kept.keep("large", (1,), b"v" * 200)
    assert kept.find("large", (1,)) is None
    kept.keep("small", (1,), b"u" * 90)
    assert kept.find("small", (1,)) is not None, "evicted entries do not count"
    assert encode({"a": "é\n"}) == '{"a":"é\\n"}'.encode()


def test_response_cache_keeps_few_of_many_small_answers() -> None:
    """A client with random filters cannot fill the memory with requests whose answers are empty."""
    kept = ResponseCache()
    for number in range(10_000):
        kept.keep(("/jobs", f"name={number}"), (1,), b"{}")
    found = [number for number in range(10_000) if kept.find(("/jobs", f"name={number}"), (1,)) is not None]
    assert 1000 < len(found) < 5000
    assert found[-1] == 9999


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"labels": {"app": 5}}},
        {"metadata": {"labels": ["app"]}},
        {"metadata": {"annotations": {"a": None}}},
        {"metadata": {"namespace": 5}},
        {"metadata": {"resourceVersion": None}},
        {"metadata": {"creationTimestamp": 1700000000}},
        {"metadata": {"ownerReferences": {"kind": "Job"}}},
        {"spec": None},
        {"spec": ["x"]},
        {"spec": {"containers": "none"}},
        {"spec": {"containers": ["none"]}},
        {"status": ["x"]},
        {"status": {"conditions": {"Ready": "True"}}},
        {"status": {"containerStatuses": [None]}},
    ],
)
def test_malformed_objects_are_skipped(change: dict[str, dict[str, object]]) -> None:
    """Every field that readers rely on is checked; the placeholder identifies the object."""
    sound = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "main"}]},
    }
    assert malformed_reason(sound) is None
    assert malformed_reason({**sound, "status": None}) is None
    changed = {**sound, **change}
    if "metadata" in change:
        changed["metadata"] = {**sound["metadata"], **change["metadata"]}  # type: ignore[dict-item]
    problem = malformed_reason(changed)
    assert problem is not None
    left_out = SkippedObject(changed, problem)
    assert left_out["metadata"].keys() == {"uid", "resourceVersion"}
    assert left_out["metadata"]["uid"] == "u"


def test_a_kept_answer_has_the_language_of_its_request() -> None:
    kept, answers = ResponseCache(), SharedAnswers()
    caller = TokenCaller("anna", Rights("viewer"))

    def asked(translation: Translation | None) -> tuple[bytes | None, str]:
        set_translation(translation)
        return kept.find("a", (1,)), answers.find(caller, "a", 60, lambda: say("add nodes"))

    try:
        assert asked(None) == (None, "add nodes")
        kept.keep("a", (1,), b"English")
        first, second = (Translation({"add nodes": "增加节点"}) for _ in range(2))
        assert asked(first) == (None, "增加节点")
        kept.keep("a", (1,), b"Chinese")
        # The header Content-Language needs it, although no sentence is made for the second request.
        assert asked(second) == (b"Chinese", "增加节点")
        assert second.is_used
        assert asked(None) == (b"English", "add nodes")
    finally:
        set_translation(None)


def test_a_kept_answer_has_the_hints_of_its_request() -> None:
    kept, answers = ResponseCache(), SharedAnswers()
    caller = TokenCaller("anna", Rights("viewer"))

    def asked(surface: Surface) -> tuple[bytes | None, str]:
        set_request_surface(surface)
        return kept.find("a", (1,)), answers.find(caller, "a", 60, lambda: f"{RecoverHint()}")

    try:
        assert asked(Surface.REST) == (None, "`POST /recoveries`")
        kept.keep("a", (1,), b"REST")
        assert asked(Surface.SERVICE_COMMAND_LINE) == (None, "`gpuctl recover`")
        kept.keep("a", (1,), b"command line")
        assert asked(Surface.REST) == (b"REST", "`POST /recoveries`")
        assert asked(Surface.SERVICE_COMMAND_LINE) == (b"command line", "`gpuctl recover`")
    finally:
        set_request_surface(Surface.COMMAND_LINE)
