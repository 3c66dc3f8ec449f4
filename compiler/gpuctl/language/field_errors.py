"""How the language says that a value is wrong: a code, what is wrong, and what to write instead."""

from __future__ import annotations

from typing import Any

from pydantic_core import PydanticCustomError

ERROR_TYPE = "gpuctl"


def field_error(
    code: str, message: str, hint: str | None = None, path: tuple[str | int, ...] = ()
) -> PydanticCustomError:
    """An error to raise inside a validator.

    ``path`` names the field relative to the place of the validator, for checks that look at a whole block.
    The frontend turns it into a diagnostic with a position; the language itself knows no positions.
    """
    context: dict[str, Any] = {"code": code, "message": message, "hint": hint, "path": path}
    # Pydantic formats the template with str.format: the message goes in as a value, so braces are safe.
    return PydanticCustomError(ERROR_TYPE, "{message}", context)
