"""Messages about events, in the formats of webhooks.

Causes, and other values that users can influence, are limited in length and sent as plain text: no format interprets
markup, links or mentions in them.

Sources: DingTalk, "Custom robot access"; Feishu, "Custom bot usage guide"; WeCom, "Group robot configuration"; Slack,
"Sending messages using incoming webhooks".
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import html
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple
from urllib.parse import quote

from gpuctl.apply.state.applied_by import applied_by
from gpuctl.language.display_text import visible
from gpuctl.language.masking import redact
from gpuctl.language.notify_block import ChannelFormat
from gpuctl.language.sentences import Template, say
from gpuctl.objects.durations import rough_duration
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.timestamps import format_timestamp, seconds_of
from gpuctl.reading.why.finding import Finding
from gpuctl_server.notifications.job_events import JobEvent

SCHEMA = 1
"""Version of the JSON format. New fields do not change it."""
_LONGEST_CAUSE = 900
_LONGEST_AUTHOR = 100
_LONGEST_TEXT = 1900
"""Maximum size of a message, bytes: WeCom takes 2,048."""
_HARMLESS = str.maketrans({"<": "＜", ">": "＞", "@": "＠"})
"""Characters that begin mentions, and their full-width forms."""
_TITLES = {
    "done": Template("{kind} {name} has succeeded"),
    "failed": Template("{kind} {name} has failed"),
    "waiting": Template("{kind} {name} has waited for longer than {limit}"),
    "sweep done": Template("sweep {name} has ended: its {jobs} jobs have succeeded"),
    "sweep failed": Template("sweep {name} has ended: {bad} of {jobs} jobs have failed"),
    "sweep waiting": Template(
        "sweep {name} has waited for longer than {limit}: none of its jobs runs, {bad} of {jobs} wait"
    ),
}
_KINDS = {
    "training": Template("training"),
    "inference": Template("inference"),
    "notebook": Template("notebook"),
    "compute": Template("compute"),
}


class Surroundings(NamedTuple):
    """The facts of a message that are not in its event.

    :param console: URL of the web console.
    """

    keys: Records
    cluster: str | None = None
    console: str | None = None


class Message(NamedTuple):
    """A message: ``data`` for programs, title and lines for chats."""

    data: dict[str, Any]
    title: str
    lines: Sequence[str]


def message_about(event: JobEvent, id: str, cause: Finding | None, around: Surroundings) -> Message:
    """Return the message about an event."""
    identity, main = event.job.identity, event.job.workload or {}
    run = str(main["metadata"]["name"])
    name = event.sweep or identity.name
    reason = _limited((cause.message if cause is not None else "") or event.status.reason, _LONGEST_CAUSE)
    reason = "" if event.kind == "done" else reason
    author, page = applied_by(main, around.keys), _page(event, around.console)
    author = _limited(author, _LONGEST_AUTHOR) if author is not None else None
    data = {
        "version": SCHEMA,
        "id": id,
        "event": event.kind,
        "time": format_timestamp(event.began if event.kind != "waiting" else event.due),
        "cluster": around.cluster,
        "namespace": identity.namespace,
        "kind": identity.kind,
        "job": name,
        "run": run,
        "sweep": event.sweep,
        "jobs": event.jobs,
        "affectedJobs": event.bad if event.sweep is not None else int(event.kind != "done"),
        "status": event.status.word,
        "cause": cause.cause if cause is not None and event.kind != "done" else None,
        "message": reason or None,
        "appliedBy": author,
        "url": page,
    }
    title = say(
        _TITLES[f"sweep {event.kind}" if event.sweep is not None else event.kind],
        kind=say(_KINDS.get(identity.kind, Template(identity.kind))),
        name=f"{identity.namespace}/{name}",
        limit=event.notify.waiting,
        jobs=event.jobs,
        bad=event.bad,
    )
    if reason and event.sweep is not None:
        reason = f"{run}: {reason}"
    lines = {
        say("Cause"): reason,
        say("Run"): run if event.sweep is None and run != identity.object_name else "",
        say("Ran for"): _duration(event),
        say("Cluster"): around.cluster or "",
        say("Applied by"): author or "",
        say("Details"): page or f"gpuctl why {identity.kind}/{run} -n {identity.namespace}",
    }
    said = [say("{label}: {value}", label=label, value=value) for label, value in lines.items() if value]
    return Message(data, title, said)


def trial_message(name: str) -> Message:
    """Return a message by which an operator tries a channel."""
    title = say("test of the channel {name}", name=name)
    now = datetime.now(timezone.utc).timestamp()
    return Message({"version": SCHEMA, "event": "test", "time": format_timestamp(now), "channel": name}, title, [])


def request_of(
    message: Message, form: ChannelFormat, secret: str | None, now: float
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the body of the request, and the parameters to add to its address.

    :param secret: with which DingTalk and Feishu verify requests; None: no signature.
    :param now: seconds since the epoch.
    """
    if form == "json":
        return message.data, {}
    if form == "slack":
        return _slack(message), {}
    text = _plain_text(message)
    if form == "feishu":
        return _feishu(message, secret, now), {}
    content = {"msgtype": "text", "text": {"content": text}}
    if form == "dingtalk" and secret is not None:
        stamp = str(round(now * 1000))
        signature = hmac.new(secret.encode(), f"{stamp}\n{secret}".encode(), hashlib.sha256).digest()
        return content, {"timestamp": stamp, "sign": base64.b64encode(signature).decode()}
    return content, {}


def rejection(form: ChannelFormat, body: bytes, value: Any) -> str | None:
    """Return why a robot has not taken a message that it answered with status 200; None if it has.

    Its own text is left out: it may contain parts of the address.

    :param value: the body as JSON; None if it is not JSON.
    """
    if form == "json":
        return None
    if form == "slack":
        return None if body.strip() == b"ok" else "Slack did not answer `ok`"
    field = "code" if form == "feishu" else "errcode"
    answer: Mapping[str, Any] = value if isinstance(value, dict) else {}
    code = answer.get(field, answer.get("StatusCode") if form == "feishu" else None)
    if code == 0:
        return None
    return f"the robot reports {field} {code}" if type(code) is int else f"the answer has no `{field}`"


def _slack(message: Message) -> dict[str, Any]:
    """Return a message of plain-text blocks. ``text``, which notifications of the client show, is escaped."""
    title = f"[gpuctl] {message.title}"
    lines = "\n".join(message.lines)
    parts = [title, *([lines] if lines else [])]
    blocks = [{"type": "section", "text": {"type": "plain_text", "text": _cut(part), "emoji": False}} for part in parts]
    return {"text": html.escape(_cut(title), quote=False), "blocks": blocks}


def _feishu(message: Message, secret: str | None, now: float) -> dict[str, Any]:
    """Return a rich text whose elements are texts: mentions would be elements of their own."""
    title, *lines = _plain_text(message).split("\n")
    content = {"title": title, "content": [[{"tag": "text", "text": line}] for line in lines or [""]]}
    body: dict[str, Any] = {"msg_type": "post", "content": {"post": {"zh_cn": content}}}
    if secret is not None:
        stamp = str(int(now))
        signature = hmac.new(f"{stamp}\n{secret}".encode(), b"", hashlib.sha256).digest()
        body |= {"timestamp": stamp, "sign": base64.b64encode(signature).decode()}
    return body


def _plain_text(message: Message) -> str:
    # The name is a keyword by which robots can be limited to these messages.
    text = "\n".join((f"[gpuctl] {message.title}", *message.lines))
    return _cut(text.translate(_HARMLESS))


def _cut(text: str, most: int = _LONGEST_TEXT) -> str:
    """Return text of so many bytes at most."""
    data = text.encode()
    return text if len(data) <= most else f"{data[: most - 3].decode(errors='ignore')}…"


def _limited(text: str, most: int) -> str:
    """Return text of a user or program in one line of so many bytes at most, without credentials."""
    return _cut(visible(" ".join(redact(text).split())), most)


def _duration(event: JobEvent) -> str:
    start = seconds_of(((event.job.workload or {}).get("status") or {}).get("startTime"))
    if event.kind == "waiting" or event.sweep is not None or start is None:
        return ""
    return rough_duration(event.began - start)


def _page(event: JobEvent, console: str | None) -> str | None:
    if console is None:
        return None
    parts: Iterable[str] = ("jobs", event.job.identity.namespace, event.job.identity.name)
    return f"{console.rstrip('/')}/#/{'/'.join(quote(part, safe='') for part in parts)}"
