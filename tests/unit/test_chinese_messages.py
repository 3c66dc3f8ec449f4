"""Chinese translations of the messages that the product's documents print."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse

from gpuctl_server.chinese import in_chinese, translated, wants_chinese


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("training/a is submitted to the pool training-pool", "任务已提交至资源池 training-pool"),
        (
            "training/a is submitted to the pool p; it waits for quota q",
            "任务已提交至资源池 p，但要等待：waits for quota q",
        ),
        ("training/a in team-a is being deleted; its pods end within their grace period", "任务删除指令已下发"),
        (
            "training/a in t is paused; its 4 pods end, which frees the GPUs and removes the logs",
            "任务已暂停，GPU 已释放",
        ),
        ("training/a in t is paused already", "任务已暂停"),
        ("inference/a in t is resumed with 2 replicas", "任务已恢复"),
        ("pool/experiment-pool is created", "资源池创建成功"),
        ("anna may create jobs of the pool training-pool", "用户拥有training-pool的任务创建权限"),
        ("anna may get jobs", "用户拥有的任务查看权限"),
        (
            "node node-1 has nvidia.com/gpu-type=x already; set overwrite=true to replace it",
            "节点 node-1 已存在键为 nvidia.com/gpu-type 的 Label，如需覆盖请设置 overwrite=true",
        ),
        ("node node-1 has no label nvidia.com/gpu-type", "节点 node-1 未找到键为 nvidia.com/gpu-type 的 Label"),
        ("there is no node node-3; did you mean node-1?", "节点 node-3 不存在"),
        ("node node-1: nvidia.com/gpu-type=a (was b)", "节点 Label 标记成功"),
        ('node node-1: a deleted (was "")', "节点 Label 删除成功"),
        ("2 of 2 nodes labelled", "批量标记节点 Label 成功"),
        ("1 of 2 nodes labelled; see `failed`", "部分节点标记失败，请查看 failed 列表"),
        # Messages that the documents do not print, and those of dry runs and refusals, stay English.
        ("training/a in t would be deleted; nothing is changed", None),
        ("node node-1: a=b; nothing is changed (dry run)", None),
        ("anna may not create jobs of the pool p: the pools of this token are q", None),
        ("inference/a in t is resumed; but its pods are refused for now: exceeded quota", None),
    ],
)
def test_documented_messages_are_translated(english: str, chinese: str | None) -> None:
    assert in_chinese(english) == (chinese or english)


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("zh-CN", True),
        ("zh-CN,zh;q=0.9,en;q=0.8", True),
        ("zh, en", True),
        ("en, zh", False),
        ("en-US,en;q=0.9,zh;q=0.8", False),
        ("zh;q=0", False),
        ("*", False),
        ("", False),
    ],
)
def test_accept_language_selects_chinese(header: str, wanted: bool) -> None:
    headers = [(b"accept-language", header.encode())] if header else []
    assert wants_chinese(Request({"type": "http", "headers": headers})) is wanted


CAUSE = {"cause": "gpu-shortage", "message": "8 GPUs are asked for, and 2 of p are free", "fix": "wait"}
"""A cause of `why`, as answers have it."""
MEANING = "没有节点有足够的空闲 GPU：8 GPUs are asked for, and 2 of p are free"


@pytest.mark.parametrize(
    "path", [("why",), ("also", 0), ("steps", 0, "waits", 0), ("plan", "steps", 0, "waits", 0), ()]
)
def test_message_of_a_cause_begins_with_its_meaning(path: tuple[str | int, ...]) -> None:
    value: Any = CAUSE
    for part in reversed(path):
        value = [value] if isinstance(part, int) else {"name": "train", part: value}
    found = json.loads(bytes(translated(JSONResponse(value)).body))
    for part in path:
        found = found[part]
    assert found == {**CAUSE, "message": MEANING}


@pytest.mark.parametrize("cause", ["apply", None, ["gpu-shortage"]])
def test_other_causes_have_no_meaning(cause: Any) -> None:
    answer = JSONResponse({"items": [CAUSE], "cause": cause, "message": "revision 2"})
    assert translated(answer) is answer
