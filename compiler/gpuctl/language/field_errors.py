"""Errors that validators of the language raise: a code, the problem, and the correction."""

from __future__ import annotations

from typing import Any

from pydantic_core import PydanticCustomError

from gpuctl.language.sentences import Sentence

ERROR_TYPE = "gpuctl"


def field_error(
    code: str, message: Sentence, hint: Sentence | None = None, path: tuple[str | int, ...] = ()
) -> PydanticCustomError:
    """Return an error to raise inside a validator.

    The language has no positions; the frontend adds them when it turns the error into a diagnostic.

    :param path: path of the field relative to the validator's block, for checks of a whole block.
    """
    context: dict[str, Any] = {"code": code, "message": message, "hint": hint, "path": path}
    # Pydantic formats the template with str.format. The message is passed as a value, so braces in it are safe.
    return PydanticCustomError(ERROR_TYPE, "{message}", context)
