"""docs/service.md says what the service has: its settings, roles and statuses."""

from __future__ import annotations

import json

from gpuctl_server.access.rights import ROLES
from gpuctl_server.openapi import PROBLEMS
from gpuctl_server.settings import ServerSettings
from support.pages import rows

PAGE = "docs/service.md"


def default_of(name: str) -> str:
    """A setting's default, as YAML has it."""
    value = ServerSettings.model_fields[name].get_default(call_default_factory=True)
    if value is None:
        return ""
    return f"`{value if isinstance(value, str) else json.dumps(value, default=str).strip(chr(34))}`"


def test_the_settings() -> None:
    """Each with its default and what it is for, in the words of the program."""
    expected = [
        [f"`{name}`", default_of(name), field.description] for name, field in ServerSettings.model_fields.items()
    ]
    assert rows(PAGE, "Settings") == expected


def test_the_roles() -> None:
    assert {row[0] for row in rows(PAGE, "Who may what")} == {f"`{role}`" for role in ROLES}


def test_the_statuses() -> None:
    heading = "What is answered when something is wrong"
    assert [int(row[0]) for row in rows(PAGE, heading)] == list(PROBLEMS)
