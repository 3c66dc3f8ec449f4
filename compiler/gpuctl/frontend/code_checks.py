"""Checks of ``code``: its repository, the platform's image, and mounts in its place."""

from __future__ import annotations

from collections.abc import Iterator

from gpuctl.frontend.diagnostics import Diagnostic, Severity
from gpuctl.frontend.document import Document
from gpuctl.frontend.platform_restrictions import disallowed_image
from gpuctl.language.code_block import CODE_DIRECTORY
from gpuctl.language.kinds import Job
from gpuctl.language.settings import Settings


def check_code(document: Document, model: Job, settings: Settings) -> Iterator[Diagnostic]:
    """Report code that changes, that cannot be fetched, or that a mount hides."""
    code = model.code
    if code is None:
        return
    if not code.is_commit:
        tag = f"refs/tags/{code.ref}"
        command = f"git ls-remote {code.git} refs/heads/{code.ref} {tag} '{tag}^{{}}'"
        if code.ref.startswith("refs/"):
            command = f"git ls-remote {code.git} {code.ref} '{code.ref}^{{}}'"
        yield document.diagnostic(
            Severity.WARNING,
            "GPU522",
            f"`{code.ref}` is a branch or tag: pods that start later may get other code",
            ("code", "ref"),
            f"write the commit, the last that `{command}` prints",
        )
    if code.uses_ssh and settings.code_secret(code) is None:
        message = "git over ssh needs a key, and the job names no Secret with one"
        hint = "add `code.secret`, or have the platform set `code.secrets` for the host"
        yield document.diagnostic(Severity.ERROR, "GPU213", message, ("code", "git"), hint)
    foreign = disallowed_image(settings.code_image, settings.registries)
    if foreign is not None:
        hint = "have the platform set `code.image` to an image with git in one of them"
        yield document.diagnostic(Severity.ERROR, "GPU602", foreign[0], ("code", "git"), hint)
    for target, noun, place in model.storage.targets:
        if target == CODE_DIRECTORY:
            message = f"the code and a {noun} are both at `{CODE_DIRECTORY}`"
            hint = f"give the {noun} another path in the container"
            yield document.diagnostic(Severity.ERROR, "GPU218", message, ("storage", *place, "path"), hint)
