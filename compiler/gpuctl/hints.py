"""Hints as values: a command or an option in a message, worded for the surface that shows it.

A hint in an f-string is rendered for the current surface: `gpuctl rerun a -n b` on the command line is ``POST
/jobs/a/rerun?namespace=b`` for a client of the REST API. A process has one surface (:func:`set_process_surface`); a
request may have its own (:func:`set_request_surface`).
"""

from __future__ import annotations

from contextvars import ContextVar
from enum import Enum
from typing import NamedTuple


class Surface(Enum):
    """The interface that shows a text."""

    COMMAND_LINE = "command line"
    SERVICE_COMMAND_LINE = "command line without a kubeconfig"
    CONSOLE = "web console, which shows commands"
    REST = "REST API"


_process = Surface.COMMAND_LINE
_target_options = _kubectl_options = ""
_request: ContextVar[Surface | None] = ContextVar("surface", default=None)
_request_options: ContextVar[str] = ContextVar("options", default="")


def surface() -> Surface:
    """Return the surface that texts are written for."""
    return _request.get() or _process


def set_process_surface(value: Surface) -> None:
    """Set the surface of all texts outside of requests in this process."""
    global _process
    _process = value


def set_request_surface(value: Surface, options: str = "") -> None:
    """Set the surface for the current context, such as a request's task and the threads it starts.

    :param options: the options with which the commands in its texts select the service.
    """
    _request.set(value)
    _request_options.set(options)


def wording() -> tuple[Surface, str]:
    """Return what the wording of hints depends on: the surface, and the options of the request's commands."""
    return surface(), _request_options.get()


def set_target_options(gpuctl: str, kubectl: str = "") -> None:
    """Set the options with which the commands in this process's texts select its cluster or service."""
    global _target_options, _kubectl_options
    _target_options, _kubectl_options = gpuctl, kubectl


def command_line(*words: str, file: str = "") -> str:
    """Return a gpuctl command in backquotes that acts on the cluster or service of this process, or of the request.

    :param file: file that receives the output.
    """
    options = _target_options if surface() is Surface.COMMAND_LINE else _request_options.get()
    parts = ("gpuctl", *words, options, f"> {file}" if file else "")
    return f"`{' '.join(filter(None, parts))}`"


def kubectl_line(*words: str) -> str:
    """Return a kubectl command in backquotes that acts on the cluster of this process."""
    options = _kubectl_options if surface() is Surface.COMMAND_LINE else ""
    return f"`{' '.join(filter(None, ('kubectl', *words, options)))}`"


class JobHint(NamedTuple):
    """A command for a job. Without ``job`` it refers to the job that the text is about."""

    action: str
    job: str = ""
    namespace: str = ""
    options: tuple[tuple[str, str], ...] = ()
    """Command-line option without dashes, and its value; "" for a flag."""

    def __str__(self) -> str:
        words, method, below = JOB_ACTIONS[self.action]
        if surface() is Surface.REST:
            query = [("namespace", self.namespace)] if self.namespace else []
            query += [(name, value or "true") for name, value in self.options]
            text = "&".join(f"{name}={value}" for name, value in query)
            return f"`{method} /jobs/{self.job or '{jobId}'}{below}{'?' if text else ''}{text}`"
        options = [f"--{name} {value}".rstrip() for name, value in self.options]
        return command_line(words, self.job, f"-n {self.namespace}" if self.namespace else "", *options)


JOB_ACTIONS: dict[str, tuple[str, str, str]] = {
    "delete": ("delete job", "DELETE", ""),
    "history": ("history", "GET", "/history"),
    "logs": ("logs", "GET", "/logs"),
    "pause": ("pause", "POST", "/pause"),
    "rerun": ("rerun", "POST", "/rerun"),
    "resume": ("resume", "POST", "/resume"),
    "rollback": ("rollback", "POST", "/rollback"),
    "run": ("run", "POST", "/run"),
    "scale": ("scale", "POST", "/scale"),
    "why": ("why", "GET", "/why"),
}
"""Action -> words after `gpuctl`, HTTP method, path below the job's."""


class ListHint(NamedTuple):
    """A command that lists a resource: jobs, nodes, pools, quotas, namespaces. With a name, only the one of it."""

    resource: str
    name: str = ""

    def __str__(self) -> str:
        if surface() is Surface.REST:
            return f"`GET /{'/'.join(filter(None, self))}`"
        return command_line("get", self.resource, self.name)


class NodeLabelsHint(NamedTuple):
    """The command that lists the labels of a node."""

    node: str

    def __str__(self) -> str:
        is_rest = surface() is Surface.REST
        return f"`GET /nodes/{self.node}/labels`" if is_rest else command_line("get labels", self.node)


class RecoverHint(NamedTuple):
    """The command that finishes interrupted runs; without a namespace, in all of them."""

    namespace: str = ""

    def __str__(self) -> str:
        if surface() is Surface.REST:
            return f"`POST /recoveries{'?namespace=' if self.namespace else ''}{self.namespace}`"
        return command_line("recover", f"-n {self.namespace}" if self.namespace else "")


class RevisionHint(NamedTuple):
    """The command that shows an earlier document of a job."""

    job: str
    namespace: str
    revision: int

    def __str__(self) -> str:
        if surface() is Surface.REST:
            return f"`GET /jobs/{self.job}/history/{self.revision}?namespace={self.namespace}`"
        words = f"history {self.job} -n {self.namespace} --revision {self.revision}"
        return command_line(words, file="old.yaml")


class NextStep(NamedTuple):
    """A command that users often need next, and its effect. Only the command line prints it, on a terminal."""

    words: tuple[str, ...]
    """The command line after `gpuctl`."""
    effect: str
    file: str = ""
    """File that receives the output; "" if it is only read."""
    needs_kubeconfig: bool = False
    """True if the command does not work with a service."""


def reach_job(kind: str, job: str, namespace: str) -> NextStep:
    """Return the step after a job has started: its log, or for a job with a port the way to reach it."""
    if kind == "training":
        return NextStep(("logs", "-f", job, "-n", namespace), f"follows the log of {job} when it runs")
    words = ("port-forward", job, "-n", namespace)
    return NextStep(words, f"forwards a local port to {job} when it runs", needs_kubeconfig=True)


def explain_waiting(job: str, namespace: str) -> NextStep:
    """Return the step after a job was submitted that has to wait."""
    return NextStep(("why", job, "-n", namespace), f"explains why {job} waits")


def resume_job(job: str, namespace: str) -> NextStep:
    """Return the step after a job was paused."""
    return NextStep(("resume", job, "-n", namespace), f"starts the pods of {job} again")


def use_document(file: str) -> tuple[NextStep, ...]:
    """Return the steps after a new document was written to a file."""
    return NextStep(("validate", file), "checks it"), NextStep(("apply", "-f", file), "submits it")


class Phrase(NamedTuple):
    """Text that differs between surfaces; "" where it is omitted.

    ``service``: text for a command line without a kubeconfig, and for the console; None: the same as ``command_line``.
    The console omits what the REST API omits: it has no such option.
    """

    command_line: str
    rest: str
    service: str | None = None

    def __str__(self) -> str:
        if surface() is Surface.REST:
            return self.rest
        if surface() is Surface.CONSOLE and not self.rest:
            return ""
        is_service = surface() is not Surface.COMMAND_LINE and self.service is not None
        return self.service or "" if is_service else self.command_line


def _takeover(command_line: str, others: str) -> Phrase:
    """Return text about objects that others manage: only users with a kubeconfig can take them over."""
    return Phrase(command_line, others, others)


ADOPT_OBJECT = _takeover(
    "rename the job, or take the object over with `gpuctl apply --adopt`",
    "rename the job, or have its manager release it",
)
ADOPT_FIELDS = _takeover(
    "take it over with --adopt, or remove it from the document",
    "remove it from the document, or have its manager release it",
)
OR_ADOPT = _takeover(", or take it over with --adopt", "")
APPLY = Phrase("`gpuctl apply`", "`PUT`")
CHECKPOINT_LESS = Phrase("with --without-checkpoint", "with `checkpoint=false`")
CONFIRM_REQUEST = Phrase("--yes confirms it", "nothing was changed; the same request with ?confirm=true confirms it")
CREATE_NAMESPACE = Phrase(
    "--create-namespace creates it, and so does `job.namespace` or a quota in the documents",
    "`job.namespace` or a quota in the documents creates it",
)
STARTER = Phrase("the service or `gpuctl apply --wait` starts it", "the service starts it")
RESUMER = Phrase("`gpuctl resume` continues it", "")
CREATE_POOL = Phrase("`gpuctl create -f pool.yaml`", "`POST /pools`")
IN_NAMESPACE = Phrase("with -n NAMESPACE", "with `namespace=NAMESPACE`")
NAMED_NAMESPACE = Phrase("with -n", "with `namespace=NAMESPACE`")
NO_PROBE = Phrase("; if this only concerns pods that users create directly, --no-probe makes it a note", "")
OR_DELETE_FILE = Phrase(", or delete it with -f FILE", "")
OR_MOVE_NODE = Phrase("; --overwrite moves it", "")
OR_RELOWER = Phrase("; --relower replaces it", "")
OVERWRITE_LABEL = Phrase("--overwrite replaces it", "set overwrite=true to replace it")
PRIORITY_CLASS = Phrase(
    "; an administrator's `gpuctl apply` creates it", "; it is created when an administrator submits a job"
)
QUEUE = Phrase("--queue", "`queue`")
QUEUE_ANYWAY = Phrase("--queue creates it anyway", "`queue=true` creates it anyway")
WAIT_FOR_LOG = Phrase("; `gpuctl logs -f` waits for it", "; with `follow=true` it is waited for")


def shows_server() -> bool:
    """Return True if texts may contain the API server's address and credentials source. Users of a service need
    neither.
    """
    return surface() is Surface.COMMAND_LINE
