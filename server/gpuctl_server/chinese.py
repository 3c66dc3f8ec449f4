"""Chinese translations of messages, for clients that prefer Chinese.

Translated are the messages that the product specification defines in Chinese. The message of a cause of ``why`` begins
with the cause's meaning in Chinese. Values that programs compare stay in English.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from gpuctl.reading.why.cause_translations import chinese_causes
from gpuctl_server.content_negotiation import JSON, accepted

_JOB = r"(?:training|inference|notebook|compute)/\S+(?: in \S+)?"
_ACTIONS = {"get": "查看", "create": "创建", "update": "修改", "delete": "删除"}
_FORMS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), chinese)
    for pattern, chinese in (
        (rf"{_JOB} is submitted to the pool (\S+?); it (.+)", r"任务已提交至资源池 \1，但要等待：\2"),
        (rf"{_JOB} is submitted to the pool (\S+)", r"任务已提交至资源池 \1"),
        (rf"{_JOB} is being deleted; .+", "任务删除指令已下发"),
        (rf"{_JOB} is paused; its (?:pod ends|\d+ pods end), which frees the GPUs.+", "任务已暂停，GPU 已释放"),
        (rf"{_JOB} is paused.*", "任务已暂停"),
        (rf"{_JOB} is resumed(?:; it starts .+| with \d+ replicas?)", "任务已恢复"),
        (r"pool/(\S+) is created", "资源池创建成功"),
        (
            r"node (\S+) has (\S+)=\S* already; set overwrite=true to replace it",
            r"节点 \1 已存在键为 \2 的 Label，如需覆盖请设置 overwrite=true",
        ),
        (r"node (\S+) has no label (\S+)", r"节点 \1 未找到键为 \2 的 Label"),
        (r"there is no node ([^\s;]+)(?:;.*)?", r"节点 \1 不存在"),
        (r"node \S+: \S+ deleted \(was .*\)", "节点 Label 删除成功"),
        (r"node \S+: \S+=.*(?<!dry run\))", "节点 Label 标记成功"),
        (r"(\d+) of \1 nodes labelled", "批量标记节点 Label 成功"),
        (r"\d+ of \d+ nodes labelled; see `failed`", "部分节点标记失败，请查看 failed 列表"),
    )
)
_RIGHT = re.compile(r"\S+ may (get|create|update|delete) jobs(?: in the namespace \S+)?(?: of the pool (\S+))?")
_LISTS = ("failed", "jobs", "success")
"""Fields with lists whose items have a `message`."""
_WITH_CAUSES = ("why", "also", "steps", "waits", "plan")
"""Fields with causes of `why`, or with objects that have such fields."""


def in_chinese(message: str) -> str:
    """Return the Chinese translation of a message; the message itself if it has no translation."""
    right = _RIGHT.fullmatch(message)
    if right is not None:
        return f"用户拥有{right[2] or ''}的任务{_ACTIONS[right[1]]}权限"
    for pattern, chinese in _FORMS:
        match = pattern.fullmatch(message)
        if match is not None:
            return match.expand(chinese)
    return message


def wants_chinese(request: Request) -> bool:
    """Return True if a client prefers Chinese to English, by ``Accept-Language``."""
    weights = accepted(request.headers.get("accept-language", ""))
    chinese = max((weight for name, weight in weights.items() if name.partition("-")[0] == "zh"), default=0.0)
    english = max((weight for name, weight in weights.items() if name.partition("-")[0] == "en"), default=0.0)
    return chinese > english or (chinese > 0 and chinese == english and _is_first(weights))


def translated(response: Response) -> Response:
    """Return a JSON answer with translated messages; any other answer unchanged."""
    if not response.headers.get("content-type", "").startswith(JSON) or not hasattr(response, "body"):
        return response
    value = json.loads(bytes(response.body))
    if not isinstance(value, dict):
        return response
    told = {
        **_translated_item(value),
        **{key: [_translated_item(item) for item in value[key]] for key in _LISTS if _has_items(value, key)},
    }
    told = _with_meanings(told)
    if told == value:
        return response
    body = json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()
    headers = {key: text for key, text in response.headers.items() if key not in ("content-length", "content-type")}
    return Response(body, response.status_code, {**headers, "Content-Language": "zh"}, JSON)


def _translated_item(value: Any) -> Any:
    if not isinstance(value, dict) or not isinstance(value.get("message"), str):
        return value
    return {**value, "message": in_chinese(value["message"])}


def _with_meanings(value: Any) -> Any:
    """Return a value with the meaning of each cause before its message, which has the names and numbers in English."""
    if isinstance(value, list):
        return [_with_meanings(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = value | {key: _with_meanings(value[key]) for key in _WITH_CAUSES if key in value}
    cause, message = value.get("cause"), value.get("message")
    meaning = chinese_causes().get(cause) if isinstance(cause, str) else None
    return found | {"message": f"{meaning}：{message}"} if meaning and isinstance(message, str) else found


def _has_items(value: Mapping[str, Any], key: str) -> bool:
    return isinstance(value.get(key), list)


def _is_first(weights: Mapping[str, float]) -> bool:
    return next(iter(weights)).partition("-")[0] == "zh"
