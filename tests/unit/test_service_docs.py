"""docs/service.md says what the service has: its settings, roles and statuses."""

from __future__ import annotations

import json
import re

import yaml

from gpuctl_server.access.rights import ROLES
from gpuctl_server.openapi_document import PROBLEMS
from gpuctl_server.server_settings import ServerSettings
from gpuctl_usage.usage_settings import UsageSettings
from support.pages import blocks, rows

PAGE = "docs/service.md"
OPERATIONS = "docs/operations.md"


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


def test_settings_of_usage_are_settings_of_the_service() -> None:
    """Both read one file, and the service refuses what it does not know."""
    ours = {name: field.annotation for name, field in UsageSettings.model_fields.items() if name.startswith("usage_")}
    assert ours == {name: ServerSettings.model_fields[name].annotation for name in ours}


def test_the_roles() -> None:
    assert {row[0] for row in rows(PAGE, "Authentication and authorization")} == {f"`{role}`" for role in ROLES}


def test_the_statuses() -> None:
    heading = "Errors"
    assert [int(row[0]) for row in rows(PAGE, heading)] == list(PROBLEMS)


def test_the_settings_of_the_examples() -> None:
    """The files that the page on operations shows are files of settings."""
    shown = [yaml.safe_load(block.text) for block in blocks(OPERATIONS) if block.note == "settings"]
    assert len(shown) == 2
    for values in shown:
        settings = ServerSettings.made(values).model_dump(mode="json")
        assert {name: settings[name] for name in values} == values


def test_the_numbers_of_sizing() -> None:
    """Those that are settings are the defaults."""
    table = {row[2]: row[1] for row in rows(OPERATIONS, "Sizing")}
    for names, numbers in table.items():
        fields = [name for name in names.replace("`", "").split(", ") if name in ServerSettings.model_fields]
        if fields:
            defaults = [ServerSettings.model_fields[name].default for name in fields]
            shown = [int(number.replace(",", "")) for number in re.findall(r"[0-9][0-9,]*[0-9]", numbers)]
            assert shown == defaults, names
    assert "`followers`, `followers_each`, `followed_jobs`" in table
