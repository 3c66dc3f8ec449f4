"""Checks of `job.notify`: channels of the platform, and events that the kind of job can have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuctl.frontend.diagnostics import Diagnostic, FieldPath, Severity
from gpuctl.frontend.document import Document
from gpuctl.language.kinds import Job
from gpuctl.language.sentences import Sentence, say
from gpuctl.language.settings import Settings
from gpuctl.language.spelling import did_you_mean
from gpuctl.language.workload import Workload

ERROR = Severity.ERROR
_PATH = ("job", "notify")


def check_notify(document: Document, model: Job, settings: Settings) -> Iterator[Diagnostic]:
    """Report events that never happen, and channels that the platform does not have."""
    notify = model.job.notify
    if notify is None:
        return
    if model.kind != "training":
        for event in ("done", "failed"):
            if getattr(notify, event):
                message = say(
                    "`{event}` never happens: only trainings end, and this is of kind {kind}",
                    event=event,
                    kind=model.kind,
                )
                hint = say(
                    "use `waiting`, which also reports pods that cannot start; deploy/monitoring has alerts for "
                    "services that fail later"
                )
                yield document.diagnostic(ERROR, "GPU232", message, (*_PATH, event), hint, key=True)
    platform = settings.notify
    if not notify.channels and not platform.default:
        message = say("the job names no channel, and the platform has no default")
        yield document.diagnostic(ERROR, "GPU234", message, _PATH, _advice(list(platform.channels)), key=True)
    for index, name in enumerate(notify.channels):
        if name not in platform.channels:
            hint = did_you_mean(name, platform.channels) or _setting(name)
            message = say("the platform has no channel `{name}`", name=name)
            yield document.diagnostic(ERROR, "GPU234", message, (*_PATH, "channels", index), hint)


def check_channel_namespaces(documents: Iterable[Document], settings: Settings) -> Iterator[Diagnostic]:
    """Report channels that the platform does not open to the namespace of the job, which the linker sets."""
    for document in documents:
        notify = document.model.job.notify if isinstance(document.model, Workload) else None
        if notify is None or document.first not in (None, document):
            continue
        for index, name in enumerate(settings.notify.channels_of(notify)):
            channel = settings.notify.channels.get(name)
            if channel is not None and not channel.takes(document.namespace):
                path: FieldPath = (*_PATH, "channels", index) if notify.channels else _PATH
                message = say(
                    "the channel `{name}` is not for jobs of the namespace `{namespace}`",
                    name=name,
                    namespace=document.namespace,
                )
                hint = say(
                    "use another channel, or have the platform add the namespace to `notify.channels.{name}`", name=name
                )
                yield document.diagnostic(ERROR, "GPU235", message, path, hint, key=not notify.channels)


def _advice(names: list[str]) -> Sentence:
    if not names:
        return _setting("NAME")
    return say("add `channels: [{name}]`, or have the platform set `notify.default`", name=names[0])


def _setting(name: str) -> Sentence:
    return say(
        "have the platform add it: `notify: {{channels: {{{name}: {{format: slack}}}}, default: [{name}]}}`", name=name
    )
