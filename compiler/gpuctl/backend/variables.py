"""Lowers variables of containers, and lifts them back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpuctl.language.environment_block import EnvSource, EnvVar
from gpuctl.objects.api_resources import Object

Data = dict[str, Any]

_KEY_REFERENCES = {"secret": "secretKeyRef", "configMap": "configMapKeyRef"}


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
    if variable.value is not None:
        return {"name": variable.name, "value": variable.value}
    if variable.fieldRef is not None:
        return {"name": variable.name, "valueFrom": {"fieldRef": {"fieldPath": variable.fieldRef}}}
    kind, source = ("secret", variable.secret) if variable.secret is not None else ("configMap", variable.configMap)
    return {"name": variable.name, "valueFrom": {_KEY_REFERENCES[kind]: {"name": source, "key": variable.key}}}


def env_source(source: EnvSource) -> Object:
    """Return an entry of ``envFrom``."""
    field, name = ("secretRef", source.secret) if source.secret is not None else ("configMapRef", source.configMap)
    return {**({"prefix": source.prefix} if source.prefix is not None else {}), field: {"name": name}}


def lift_variables(env: Iterable[Object]) -> list[Data]:
    """Return the entries of ``env``, without those that the language cannot express."""
    variables: list[Data] = []
    for item in env:
        source = item.get("valueFrom")
        if source is None:
            variables.append({"name": item["name"], "value": item.get("value", "")})
        elif "fieldRef" in source:
            variables.append({"name": item["name"], "fieldRef": source["fieldRef"]["fieldPath"]})
        for kind, field in _KEY_REFERENCES.items():
            if source is not None and field in source:
                variables.append({"name": item["name"], kind: source[field]["name"], "key": source[field]["key"]})
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
