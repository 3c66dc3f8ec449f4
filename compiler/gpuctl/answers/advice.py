"""What to do, in the words of whoever asked: refusals advise in commands, which not everybody can run.

The texts are written once, where something is refused, in the command line's words. Here stands of each command and
option what it is to a client of the REST API, and to the command line of somebody without a kubeconfig.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

_NAME = r"[A-Za-z0-9._/-]+"
_WITHOUT = "have whoever holds it let go of it"


class _Form(NamedTuple):
    """A command or an option in a text, and what stands for it."""

    pattern: re.Pattern[str]
    instead: str | Callable[[re.Match[str]], str]


def _form(pattern: str, instead: str | Callable[[re.Match[str]], str]) -> _Form:
    return _Form(re.compile(pattern), instead)


def _of_job(method: str, below: str = "") -> Callable[[re.Match[str]], str]:
    """A request about a job that a command names, with its options as parameters."""

    def request(match: re.Match[str]) -> str:
        options = match["options"] or ""
        query = [f"namespace={match['namespace']}"] if match["namespace"] else []
        query += ["force=true"] if "--force" in options else []
        query += ["previous=true"] if "--previous" in options else []
        pod = re.search(r"--pod (\S+)", options)
        query += [f"pod={pod[1]}"] if pod else []
        job = (match["job"] or "{jobId}").rpartition("/")[2]
        return f"`{method} /jobs/{job}{below}{'?' if query else ''}{'&'.join(query)}`"

    return request


def _job_command(words: str) -> str:
    return rf"`gpuctl {words}(?: (?P<job>(?!-){_NAME}))?(?: -n (?P<namespace>{_NAME}))?(?P<options>(?: --?[^`]*)?)`"


_SERVER = r"https?://\S+(?: \(context [^)]*\))?"
_CLUSTER: tuple[_Form, ...] = (
    _form(
        rf"(?:{_SERVER} (?:cannot be reached|does not speak TLS as expected)|the certificate of {_SERVER} is )[^;\n]*",
        "the Kubernetes API server cannot be reached",
    ),
    _form(rf"{_SERVER} (gave no answer|answered)\b", r"the Kubernetes API server \1"),
    _form(
        r"check the (?:context, the network and the proxy; `kubectl version` should work|server's address and port)",
        "try again in a moment; administrators find the reason in the log of the service",
    ),
)
"""Where the cluster is, and how it is reached, is the service's own business."""

_HELD: tuple[_Form, ...] = (
    _form(
        r"rename the job, or take the object over with `gpuctl apply --adopt`",
        f"rename the job, or {_WITHOUT}",
    ),
    _form(r"take it over with --adopt, or take it out of the document", f"take it out of the document, or {_WITHOUT}"),
    _form(r", or take it over with --adopt", ""),
)
"""What others hold is taken over by those who reach the cluster itself."""

_REST: tuple[_Form, ...] = (
    *_CLUSTER,
    *_HELD,
    _form(
        r"--create-namespace creates it, and so does `job\.namespace` or a quota in the documents",
        "`job.namespace` or a quota in the documents creates it",
    ),
    _form(r"; --relower replaces it", ""),
    _form(r"--queue creates it all the same", "`queue=true` creates it all the same"),
    _form(r", with or without --queue", ", with or without `queue`"),
    _form(r", and apply with `--relower`", ", and run the job again"),
    _form(r"; if this is only about pods that people create themselves, --no-probe goes on", ""),
    _form(r"; an administrator's `gpuctl apply` creates it", "; it is created when an administrator submits a job"),
    _form(r"--overwrite replaces it", "`overwrite: true` replaces it"),
    _form(r"; --overwrite moves it", ""),
    _form(r"with --without-checkpoint", "with `checkpoint=false`"),
    _form(r"confirm with --yes", "confirm with `confirm=true`"),
    _form(r"with -n NAMESPACE", "with `namespace=NAMESPACE`"),
    _form(r"; `gpuctl logs -f` waits for it", "; with `follow=true` it is waited for"),
    _form(
        rf"`gpuctl recover(?: -n (?P<namespace>{_NAME}))?`",
        lambda match: f"`POST /recoveries{'?namespace=' + match['namespace'] if match['namespace'] else ''}`",
    ),
    _form(_job_command("delete job"), _of_job("DELETE")),
    _form(_job_command("describe job"), _of_job("GET")),
    _form(_job_command("rerun"), _of_job("POST", "/rerun")),
    _form(_job_command("pause"), _of_job("POST", "/pause")),
    _form(_job_command("resume"), _of_job("POST", "/resume")),
    _form(_job_command("why"), _of_job("GET", "/why")),
    _form(_job_command("logs"), _of_job("GET", "/logs")),
    _form(rf"`gpuctl get labels ({_NAME})`", r"`GET /nodes/\1/labels`"),
    _form(r"`gpuctl get labels`", "`GET /nodes/labels/all`"),
    _form(r"`gpuctl get (jobs|nodes|pools|quotas|namespaces)`", r"`GET /\1`"),
    _form(rf"`gpuctl label node ({_NAME}) [^`]*`", r"`POST /nodes/\1/labels`"),
    _form(r"`gpuctl create -f pool\.yaml`", "`POST /pools`"),
    _form(r"`gpuctl apply`", "`PUT`"),
)
"""The first that matches goes first."""


def for_rest(text: str) -> str:
    """A text for a client of the REST API."""
    return _reworded(text, _REST) if "gpuctl" in text or "-" in text or _names_cluster(text) else text


def by_service(text: str) -> str:
    """A text for the command line that has no kubeconfig: what works there stays as it is."""
    return _reworded(text, (*_CLUSTER, *_HELD)) if "--adopt" in text or _names_cluster(text) else text


def _names_cluster(text: str) -> bool:
    """Return True if a text may name the API server, or give a hint on reaching it."""
    return "://" in text or text.startswith("check the ")


def reworded(value: Any, words: Callable[[str], str]) -> Any:
    """A value of JSON with its texts in other words; names of fields stay."""
    if isinstance(value, str):
        return words(value)
    if isinstance(value, dict):
        return {key: reworded(item, words) for key, item in value.items()}
    return [reworded(item, words) for item in value] if isinstance(value, list) else value


def _reworded(text: str, forms: tuple[_Form, ...]) -> str:
    for form in forms:
        text = form.pattern.sub(form.instead, text)
    return text
