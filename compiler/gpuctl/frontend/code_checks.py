"""Checks of ``code``: its repository, the platform's image, and mounts in its place."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from gpuctl.frontend.code_problem import CodeProblem
from gpuctl.frontend.diagnostics import Diagnostic, Severity
from gpuctl.frontend.document import Document
from gpuctl.frontend.local_code import local_code
from gpuctl.frontend.platform_restrictions import disallowed_image
from gpuctl.language.code_block import CODE_DIRECTORY, Code
from gpuctl.language.kinds import Job
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings

_MOST_OF_SWEEP = 16 * 2**20
"""Bytes of all copies of the code of a sweep's jobs: etcd stores each of them."""


def check_code(document: Document, model: Job, settings: Settings) -> Iterator[Diagnostic]:
    """Report code that changes, that cannot be fetched, or that a mount hides."""
    code = model.code
    if code is None:
        return
    if code.local is not None:
        yield from _local(document, model, code)
    elif code.ref is not None and not code.is_commit:
        tag = f"refs/tags/{code.ref}"
        command = f"git ls-remote {code.git} refs/heads/{code.ref} {tag} '{tag}^{{}}'"
        if code.ref.startswith("refs/"):
            command = f"git ls-remote {code.git} {code.ref} '{code.ref}^{{}}'"
        yield document.diagnostic(
            Severity.WARNING,
            "GPU522",
            say("`{ref}` is a branch or tag: pods that start later may get other code", ref=code.ref),
            ("code", "ref"),
            say("write the commit, the last that `{command}` prints", command=command),
        )
    if code.uses_ssh and settings.code_secret(code) is None:
        message = say("git over ssh needs a key, and the job names no Secret with one")
        hint = say("add `code.secret`, or have the platform set `code.secrets` for the host")
        yield document.diagnostic(Severity.ERROR, "GPU213", message, ("code", "git"), hint)
    foreign = disallowed_image(settings.platform.code.image, settings.platform.image.registries)
    if foreign is not None:
        hint = say("have the platform set `code.image` to an image with git in one of them")
        source = "git" if code.local is None else "local"
        yield document.diagnostic(Severity.ERROR, "GPU602", foreign[0], ("code", source), hint)
    for target, noun, place in model.storage.targets:
        if target == CODE_DIRECTORY:
            message = say("the code and a {noun} are both at `{path}`", noun=noun, path=CODE_DIRECTORY)
            hint = say("give the {noun} another path in the container", noun=noun)
            yield document.diagnostic(Severity.ERROR, "GPU218", message, ("storage", *place, "path"), hint)


def _local(document: Document, model: Job, code: Code) -> Iterator[Diagnostic]:
    """Report files that cannot be packed, or that are not those of a stored document."""
    found, path = local_code(document), ("code", "local")
    if isinstance(found, CodeProblem):
        yield document.diagnostic(Severity.ERROR, found.code, found.message, path, found.hint)
        return
    if found is None:
        if code.sha256 is None:
            message = say("this document came without the files beside it")
            hint = say("let gpuctl read the document's file itself, or write `code: {{git: URL, ref: COMMIT}}`")
            yield document.diagnostic(Severity.ERROR, "GPU236", message, path, hint)
        return
    if code.sha256 is not None and code.sha256 != found.sha256:
        message = say(
            "the files of `{local}` are not those of the stored document: their hash is `{sha256}`",
            local=code.local,
            sha256=found.sha256,
        )
        hint = say("remove the line to use them, or check out the commit of the stored document")
        yield document.diagnostic(Severity.ERROR, "GPU236", message, ("code", "sha256"), hint)
    if code.path is not None and posixpath.normpath(code.path) not in {".", *found.directories}:
        message = say("`{local}` has no directory `{path}`", local=code.local, path=code.path)
        yield document.diagnostic(
            Severity.ERROR, "GPU236", message, ("code", "path"), say("name one of its directories")
        )
    if document.sweep_size * len(found.data) > _MOST_OF_SWEEP:
        size, most = f"{len(found.data) / 1024:,.0f} KiB", f"{_MOST_OF_SWEEP // 2**20} MiB"
        message = say(
            "each job of a sweep has its own copy of the code, and copies of {size} are more than {most}",
            size=size,
            most=most,
        )
        hint = say("fetch the code with `code: {{git: URL, ref: COMMIT}}`, or make the sweep smaller")
        yield document.diagnostic(Severity.ERROR, "GPU432", message, path, hint)
