"""What a command line says, held against what the document says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuctl.frontend.diagnostics import Diagnostic, Severity
from gpuctl.frontend.document import Document
from gpuctl.frontend.spans import within
from gpuctl.language.kinds import Job
from gpuctl.language.masking import CREDENTIAL
from gpuctl.language.wording import shorten

WARNING, NOTE = Severity.WARNING, Severity.NOTE
HOSTFILE_DIRECTORY = "/job"
"""Where DeepSpeed looks for its hostfile, /job/hostfile."""

# Options of DeepSpeed's launcher that take no value (deepspeed/launcher/runner.py, 0.19).
_DEEPSPEED_FLAGS = frozenset(
    {
        *("--module", "--no_python", "--no_local_rank", "--no_ssh", "--no_ssh_check", "--force_multi", "--save_pid"),
        *("--elastic_training", "--bind_cores_to_rank", "-q", "--quiet"),
    }
)
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ash", "ksh", "busybox"})
_OPERATORS = frozenset({"&&", "||", "|", ";", ">", ">>", "<", "2>&1", "&"})
_SECRET_OPTION = r"(?i)--?(?:[\w-]+\.)*(?:[\w-]*[-_])?(?:token|password|passwd|secret|api[-_]?key)\Z"  # noqa: S105 - options, not a password
_REFERENCE = r"\$\([A-Za-z_][\w.-]*\)|\$\{?[A-Za-z_]"


class Word(NamedTuple):
    """One word of the command line and its path in the document."""

    text: str
    path: tuple[str | int, ...]


def command_line(model: Job) -> list[Word]:
    """Command and args as one list of words."""
    environment = model.environment
    return [
        *(Word(text, ("environment", "command", index)) for index, text in enumerate(environment.command)),
        *(Word(text, ("environment", "args", index)) for index, text in enumerate(environment.args)),
    ]


def option(words: Sequence[Word], *names: str) -> tuple[Word, str] | None:
    """The last value given for an option, as ``--name value`` or ``--name=value``, and the word that holds it."""
    found: tuple[Word, str] | None = None
    for index, word in enumerate(words):
        if not word.text.startswith("-"):
            continue
        name, equals, value = word.text.partition("=")
        if name not in names:
            continue
        if equals:
            found = (word, value)
        elif index + 1 < len(words):
            found = (words[index + 1], words[index + 1].text)
    return found


def programs(words: Sequence[Word]) -> list[str]:
    """The base names of the words up to the first option: ``/usr/bin/env python`` -> ``env``, ``python``."""
    names = []
    for word in words[:4]:
        if word.text.startswith("-") and word.text != "-m":
            break
        names.append(word.text.rpartition("/")[2])
    return names


def uses_llama_factory(argv: Sequence[str]) -> bool:
    """Whether the program is LLaMA-Factory's command, under its real or its often misspelt name."""
    return bool(argv) and argv[0].rpartition("/")[2] in ("llamafactory-cli", "llama-factory-cli", "lmf")


def uses_deepspeed(argv: Sequence[str]) -> bool:
    """Whether the program is DeepSpeed's launcher, which reaches other nodes by ssh unless told not to."""
    return bool(argv) and (
        argv[0].rpartition("/")[2] == "deepspeed"
        or (len(argv) > 2 and argv[1] == "-m" and argv[2] in ("deepspeed", "deepspeed.launcher.runner"))
    )


def lint_command(document: Document, model: Job) -> Iterator[Diagnostic]:
    """Everything remarkable about a workload's command line and variables."""
    words = command_line(model)
    if words:
        yield from _whole_line(document, words)
        yield from _shell_syntax(document, words)
        yield from _ports(document, model, words)
        yield from _parallelism(document, model, words)
        yield from _launchers(document, model, words)
    yield from _credentials(document, model, words)
    yield from _dollars(document, model, words)


def _whole_line(document: Document, words: list[Word]) -> Iterator[Diagnostic]:
    first = words[0]
    if first.path[1] == "command" and re.search(r"\S\s+-?\S", first.text) and "\n" not in first.text:
        quoted = ", ".join(f'"{part}"' for part in first.text.split()[:8])
        message = f"the program would be called `{shorten(first.text)}`, blanks and all"
        yield document.diagnostic(WARNING, "GPU509", message, first.path, f"one item a word: [{quoted}]")


def _shell_syntax(document: Document, words: list[Word]) -> Iterator[Diagnostic]:
    if words[0].path[1] == "args" or any(name in _SHELLS for name in programs(words)):
        return
    for word in words[1:]:
        if word.text in _OPERATORS:
            message = f"`{word.text}` is handed to the program as an argument: no shell reads this command"
            yield document.diagnostic(WARNING, "GPU510", message, word.path, 'use ["bash", "-c", "first && second"]')
            return


def _ports(document: Document, model: Job, words: list[Word]) -> Iterator[Diagnostic]:
    service = getattr(model, "service", None)
    if service is None:
        return
    given = option(words, "--port", "--ServerApp.port", "--NotebookApp.port", "--server.port", "--http-port")
    if given is None or not given[1].isdigit() or len(given[1]) > 5:
        return
    listens = int(given[1])
    target = service.targetPort or service.port
    if listens != target and listens not in [extra.targetPort or extra.port for extra in service.ports]:
        yield document.diagnostic(
            WARNING,
            "GPU502",
            f"the program listens on port {listens}, and the service sends to port {target}",
            ("service", "port"),
            f"set `service.port: {listens}`, or start the program with port {target}",
        )


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else None


def _parallelism(document: Document, model: Job, words: list[Word]) -> Iterator[Diagnostic]:
    gpus = model.resources.gpu
    tensor = option(words, "--tensor-parallel-size", "--tensor_parallel_size", "-tp", "--tp-size", "--tp")
    pipeline = option(words, "--pipeline-parallel-size", "--pipeline_parallel_size", "-pp", "--pp-size")
    if tensor is not None and (size := _number(tensor[1])) is not None:
        total = size * ((_number(pipeline[1]) if pipeline else 1) or 1)
        if total != gpus:
            product = f"{size}" if total == size else f"{size} x pipeline {total // size}"
            yield document.diagnostic(
                WARNING,
                "GPU503",
                f"tensor parallel {product} needs {total} GPUs, and the pod has {gpus}",
                tensor[0].path,
                f"set `resources.gpu: {total}`{_other_size(gpus, total // size)}",
            )
    per_node = option(words, "--nproc_per_node", "--nproc-per-node", "--num_gpus", "--num-gpus")
    if per_node is not None and (processes := _number(per_node[1])) is not None and gpus > 0 and processes != gpus:
        yield document.diagnostic(
            WARNING,
            "GPU504",
            f"{processes} processes per node are started on {gpus} GPUs",
            per_node[0].path,
            f"set it to {gpus}, or remove it: NPROC_PER_NODE and PET_NPROC_PER_NODE are set already",
        )
    if model.kind == "training":
        nodes = option(words, "--nnodes", "--num_nodes", "--num_machines")
        if nodes is not None and (count := _number(nodes[1])) is not None and count != model.resources.nodes:
            yield document.diagnostic(
                WARNING,
                "GPU504",
                f"the command wants {count} nodes, and the document gives {model.resources.nodes}",
                nodes[0].path,
                f"set `resources.nodes: {count}`, or remove the option: NNODES and PET_NNODES are set already",
            )


def _other_size(gpus: int, pipeline: int) -> str:
    """The advice to change the tensor parallel size instead, where one fits the GPUs that there are."""
    size, rest = divmod(gpus, pipeline)
    return f", or the tensor parallel size to {size}" if size and not rest else ""


def _launchers(document: Document, model: Job, words: list[Word]) -> Iterator[Diagnostic]:
    argv = [word.text for word in words]
    first = words[0]
    if first.text.rpartition("/")[2] == "llama-factory-cli":
        message = "LLaMA-Factory's program is called `llamafactory-cli`"
        hint = "write `llamafactory-cli`, unless the image has it under this name"
        yield document.diagnostic(WARNING, "GPU505", message, first.path, hint)
    if model.kind != "training":
        return
    if model.resources.nodes > 1 and uses_deepspeed(argv):
        yield from _deepspeed(document, words)
    if model.resources.nodes > 1 and programs(words)[:1] in (["mpirun"], ["mpiexec"]):
        message = "mpirun reaches the other nodes by ssh, which few images have"
        yield document.diagnostic(WARNING, "GPU506", message, first.path, "use torchrun, or an image with ssh keys")


def _deepspeed(document: Document, words: list[Word]) -> Iterator[Diagnostic]:
    """The launcher without ssh: each node starts its own processes, and must be told its rank and the first node."""
    start = 1 if words[0].text.rpartition("/")[2] == "deepspeed" else 3
    options, script = _launcher_options(words, start)
    program = " ".join(word.text for word in words[:start])
    missing = sorted({"--node_rank", "--master_addr"} - options.keys())
    rank = options.get("--node_rank")
    if "--no_ssh" not in options:
        message, place = "deepspeed reaches the other nodes by ssh, which few images have", words[0]
        if any(word.text == "--no_ssh" for word in words[script:]):
            message = "`--no_ssh` stands after the script, which gets it as an argument: the launcher does not see it"
            place = next(word for word in words[script:] if word.text == "--no_ssh")
    elif missing:
        message, place = f"deepspeed fails with `--no_ssh` and without {' and '.join(missing)}", options["--no_ssh"][0]
    elif rank is not None and _number(rank[1]) is not None:
        message, place = f"every node would start as node {rank[1]}", rank[0]
    else:
        return
    kept = [
        f"{name} {value}".rstrip()
        for name, (_, value) in options.items()
        if name not in ("--no_ssh", "--node_rank", "--master_addr")
    ]
    rest = " ".join([*kept, *(word.text for word in words[script : script + 1])])
    advice = f"{program} --no_ssh --node_rank=$(NODE_RANK) --master_addr=$(MASTER_ADDR) {rest}".rstrip()
    hint = f"write `{advice} ...`, one list item a word, or use torchrun; the hostfile is mounted at /job/hostfile"
    yield document.diagnostic(WARNING, "GPU506", message, place.path, hint)


def _launcher_options(words: Sequence[Word], start: int) -> tuple[dict[str, tuple[Word, str]], int]:
    """The options before DeepSpeed's script, which are the launcher's own, and the script's index."""
    options: dict[str, tuple[Word, str]] = {}
    index = start
    while index < len(words) and words[index].text.startswith("-"):
        name, equals, value = words[index].text.partition("=")
        if not equals and name not in _DEEPSPEED_FLAGS and index + 1 < len(words):
            index += 1
            value = words[index].text
        options[name] = (words[index], value)
        index += 1
    return options, index


def _credentials(document: Document, model: Job, words: list[Word]) -> Iterator[Diagnostic]:
    """A credential in a command line is in the pod's spec, in git and in every process list."""
    variables = model.environment.variables
    # One search over all of it first: hardly any document holds one.
    texts = [*(word.text for word in words), *(variable.value or "" for variable in variables)]
    has_token = re.search(CREDENTIAL, "\n".join(texts)) is not None
    for index, word in enumerate(words):
        name, equals, value = word.text.partition("=")
        if not equals and index + 1 < len(words):
            value = words[index + 1].text
        named = name.startswith("-") and re.match(_SECRET_OPTION, name) is not None
        named = named and value.strip("'\"") != "" and not value.isdigit()
        if named and not re.search(_REFERENCE, value) and not value.startswith("-") and not value.startswith("/"):
            target = word if equals else words[index + 1]
            yield _credential(document, target.path, f"`{name}` gives a credential in the command", name)
        elif (
            has_token
            and re.search(CREDENTIAL, word.text)
            and (index == 0 or not re.match(_SECRET_OPTION, words[index - 1].text))
        ):
            yield _credential(document, word.path, "the command holds what looks like a credential", None)
    for position, variable in enumerate(variables if has_token else ()):
        if variable.value is not None and re.search(CREDENTIAL, variable.value):
            path: tuple[str | int, ...] = ("environment", "env", variable.name)
            if isinstance(model.environment.env, list):
                path = ("environment", "env", position, "value")
            hint = (
                "write `secret: NAME` and `key: KEY` instead of the value, after "
                "`kubectl create secret generic NAME --from-literal=KEY=...`"
            )
            message = f"the variable `{variable.name}` holds what looks like a credential"
            yield document.diagnostic(WARNING, "GPU507", message, path, hint)


def _credential(document: Document, path: tuple[str | int, ...], message: str, name: str | None) -> Diagnostic:
    option_text = f"`{name}=$(TOKEN)`" if name else "`$(TOKEN)`"
    hint = (
        "keep it in a Secret: `kubectl create secret generic NAME --from-literal=token=...`, then "
        f"`env: [{{name: TOKEN, secret: NAME, key: token}}]` and {option_text} in the command"
    )
    return document.diagnostic(WARNING, "GPU507", message, path, hint)


def _dollars(document: Document, model: Job, words: list[Word]) -> Iterator[Diagnostic]:
    texts = list(words)
    for position, variable in enumerate(model.environment.variables):
        in_list = isinstance(model.environment.env, list)
        path: tuple[str | int, ...] = ("environment", "env", position, "value")
        texts.append(Word(variable.value or "", path if in_list else ("environment", "env", variable.name)))
    for word in texts:
        if "$$" in word.text:
            diagnostic = document.diagnostic(
                NOTE,
                "GPU508",
                "Kubernetes turns `$$` into `$` in commands, arguments and variables",
                word.path,
                "write `$$$$` where the program should see `$$`",
            )
            if diagnostic.span is not None:
                span = within(document.chunk, diagnostic.span, "$$")
                diagnostic = Diagnostic(NOTE, diagnostic.code, diagnostic.message, span, word.path, diagnostic.hint)
            yield diagnostic
