"""The reason why the files of ``code.local`` cannot be packed."""

from __future__ import annotations

from gpuctl.language.sentences import Sentence


class CodeProblem(Exception):
    """A directory that cannot be packed: the code of the diagnostic, its message and hint."""

    def __init__(self, code: str, message: Sentence, hint: Sentence) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
