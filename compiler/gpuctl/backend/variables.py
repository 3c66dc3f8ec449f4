"""Lowers variables of containers, and lifts them back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpuctl.language.environment_block import EnvSource, EnvVar
from gpuctl.objects.api_resources import Object

Data = dict[str, Any]


def env_value(name: str, value: str | int) -> Object:
    """Return a variable with a value set by gpuctl."""
    return {"name": name, "value": str(value)}


def literal_value(name: str, text: str) -> Object:
    """Return a variable with a text in which Kubernetes expands no `$(NAME)`: `$$` stands for a dollar."""
    return env_value(name, text.replace("$", "$$"))


def literal_text(variable: Object | None) -> str:
    """Return the text of a variable made by :func:`literal_value`; empty without a variable or a value."""
    return str((variable or {}).get("value", "")).replace("$$", "$")


def env_variable(variable: EnvVar) -> Object:
    """Return a variable of a document."""
    if variable.secret is not None:
        return {
            "name": variable.name,
            "valueFrom": {"secretKeyRef": {"name": variable.secret, "key": variable.key}},
        }
    return {"name": variable.name, "value": variable.value}


def env_source(source: EnvSource) -> Object:
    """Return an entry of ``envFrom``."""
    field, name = ("secretRef", source.secret) if source.secret is not None else ("configMapRef", source.configMap)
    return {**({"prefix": source.prefix} if source.prefix is not None else {}), field: {"name": name}}


def lift_variables(env: Iterable[Object]) -> list[Data]:
    """Return the entries of ``env``, without those that the language cannot express."""
    variables: list[Data] = []
    for item in env:
        reference = item.get("valueFrom", {}).get("secretKeyRef")
        if reference is not None:
            variables.append({"name": item["name"], "secret": reference["name"], "key": reference["key"]})
        elif "valueFrom" not in item:
            variables.append({"name": item["name"], "value": item.get("value", "")})
    return variables


def lift_sources(sources: Iterable[Object]) -> list[Data]:
    """Return the entries of ``envFrom``."""
    return [_source(source) for source in sources]


def _source(source: Object) -> Data:
    data: Data = {"prefix": source["prefix"]} if source.get("prefix") else {}
    for field, reference in (("secret", "secretRef"), ("configMap", "configMapRef")):
        if reference in source:
            data[field] = source[reference]["name"]
    return data
