"""The settings, roles, statuses and sizes in docs/service.md and docs/operations.md match the service."""

from __future__ import annotations

import json
import re

import yaml

from gpuctl_server.access.rights import ROLES
from gpuctl_server.http.openapi_document import PROBLEMS
from gpuctl_server.server_settings import ServerSettings
from support.pages import blocks, rows

PAGE = "docs/service.md"
OPERATIONS = "docs/operations.md"


def default_of(name: str) -> str:
    """Return a setting's default as YAML."""
    value = ServerSettings.model_fields[name].get_default(call_default_factory=True)
    if value is None:
        return ""
    return f"`{value if isinstance(value, str) else json.dumps(value, default=str).strip(chr(34))}`"


def test_documented_settings_match_the_code() -> None:
    """Each setting is listed with its default and its description."""
    expected = [
        [f"`{name}`", default_of(name), field.description] for name, field in ServerSettings.model_fields.items()
    ]
    assert sorted(rows(PAGE, "Settings")) == sorted(expected)


def test_documented_roles_match_the_code() -> None:
    assert {row[0] for row in rows(PAGE, "Authentication and authorization")} == {f"`{role}`" for role in ROLES}


def test_documented_statuses_match_the_code() -> None:
    heading = "Errors"
    assert [int(row[0]) for row in rows(PAGE, heading)] == list(PROBLEMS)


def test_settings_examples_are_valid() -> None:
    """The settings files shown in docs/operations.md are valid."""
    shown = [yaml.safe_load(block.text) for block in blocks(OPERATIONS) if block.note == "settings"]
    assert len(shown) == 2
    for values in shown:
        settings = ServerSettings.made(values).model_dump(mode="json")
        assert {name: settings[name] for name in values} == values


def test_sizing_table_shows_the_default_settings() -> None:
    """Numbers that are settings are their defaults."""
    table = {row[2]: row[1] for row in rows(OPERATIONS, "Sizing")}
    for names, numbers in table.items():
        fields = [name for name in names.replace("`", "").split(", ") if name in ServerSettings.model_fields]
        if fields:
            defaults = [ServerSettings.model_fields[name].default for name in fields]
            shown = [int(number.replace(",", "")) for number in re.findall(r"[0-9][0-9,]*[0-9]", numbers)]
            assert shown == defaults, names
    assert "`followers`, `followers_each`, `followed_jobs`" in table
