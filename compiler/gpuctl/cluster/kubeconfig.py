"""Kubeconfig files: what is wrong with one, in words, and which context, user and cluster are meant.

The official client reads them again to connect. It takes well-formed files for granted: from others its messages are
Python's, and some repeat a whole entry with its token. Rules: ``k8s.io/client-go/tools/clientcmd`` (``loader.go``,
``validation.go``); of several files the first that says something counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from gpuctl.cluster.errors import ConfigurationError
from gpuctl.language.fields import visible
from gpuctl.language.names import is_dns_label

Entry = dict[str, Any]

_TYPES: dict[type, str] = {str: "text", bool: "true or false", dict: "a mapping", list: "a list"}
_TEXTS = {
    "cluster": ("server", "certificate-authority", "certificate-authority-data", "tls-server-name", "proxy-url"),
    "user": ("token", "tokenFile", "client-certificate", "client-certificate-data", "client-key", "client-key-data"),
    "context": ("cluster", "user", "namespace"),
}
_ANOTHER = "name another with --kubeconfig or KUBECONFIG"
_LOOK = "`kubectl config view` shows what kubectl makes of it"


class Chosen(NamedTuple):
    """The context that is meant: its name, namespace ("" when it says none), and its user's entry.

    ``files`` are those that say something.
    """

    files: list[str]
    context: str
    namespace: str
    user_name: str
    user: Entry


def choose(files: Sequence[str], wanted: str | None) -> Chosen:
    """Read the files and find the context ``wanted``, or the current one.

    :raises ConfigurationError: a file is no kubeconfig, or names what is not there.
    """
    contents = [(name, value) for name, value in ((name, _read(name)) for name in files) if value]
    where = " and ".join(name for name, _ in contents or [(name, {}) for name in files])
    if not contents:
        raise ConfigurationError(f"the kubeconfig {where} is empty", _ANOTHER)
    found = {part: _merged(contents, part) for part in ("cluster", "context", "user")}
    name = wanted or next((str(value["current-context"]) for _, value in contents if value.get("current-context")), "")
    known = ", ".join(visible(context) for context in found["context"]) or "none"
    if not name:
        raise ConfigurationError(
            f"the kubeconfig {where} has no current context", f"choose one with --context; it has: {known}"
        )
    if name not in found["context"]:
        raise ConfigurationError(f"the kubeconfig {where} has no context {visible(name)}", f"it has: {known}")
    context = found["context"][name]
    title = f"the context {visible(name)} of the kubeconfig {where}"
    for part in ("cluster", "user"):
        named = context.get(part)
        if named and named not in found[part]:
            raise ConfigurationError(f"{title} names the {part} {visible(named)}, which is not there", _LOOK)
    if not context.get("cluster"):
        raise ConfigurationError(f"{title} names no cluster", _LOOK)
    server = found["cluster"][context["cluster"]].get("server") or ""
    if not server.startswith(("https://", "http://")):
        raise ConfigurationError(
            f"the server of the cluster {visible(context['cluster'])} is {visible(server) or 'not given'} in the "
            f"kubeconfig {where}",
            "it has to be an address such as https://10.0.0.1:6443",
        )
    namespace = context.get("namespace") or ""
    if namespace and not is_dns_label(namespace):
        raise ConfigurationError(f"{title} has the namespace {visible(namespace)}, which is not a legal name", _LOOK)
    user = context.get("user") or ""
    return Chosen([name for name, _ in contents], name, namespace, user, found["user"].get(user) or {})


def _read(name: str) -> Entry:
    try:
        text = Path(name).expanduser().read_text(encoding="utf-8")
        value = yaml.safe_load(text)
    except OSError as error:
        raise ConfigurationError(
            f"the kubeconfig {name} cannot be read: {(error.strerror or str(error)).lower()}", _ANOTHER
        ) from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"the kubeconfig {name} is not text in UTF-8", _ANOTHER) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""
        raise ConfigurationError(f"the kubeconfig {name} is not YAML{place}", _LOOK) from None
    if value is None:
        return {}
    if not isinstance(value, dict) or not {"clusters", "contexts", "users", "current-context"} & value.keys():
        raise ConfigurationError(f"{name} is no kubeconfig: it has no clusters, contexts and users", _ANOTHER)
    current = value.get("current-context")
    _expect(name, "current-context", "" if current is None else current, str)
    return value


def _merged(contents: Iterable[tuple[str, Entry]], part: str) -> dict[str, Entry]:
    """The entries of one of the three lists by name, those of earlier files first."""
    found: dict[str, Entry] = {}
    for file, value in contents:
        entries = value.get(f"{part}s")
        _expect(file, f"{part}s", [] if entries is None else entries, list)
        for number, entry in enumerate(entries or []):
            _expect(file, f"{part}s[{number}]", entry, dict)
            _expect(file, f"{part}s[{number}].name", entry.get("name"), str)
            _check(file, part, f"{part}s[{visible(entry['name'])}].{part}", entry.get(part))
            found.setdefault(entry["name"], entry[part])
    return found


def _check(file: str, part: str, path: str, body: Any) -> None:
    _expect(file, path, body, dict)
    texts = (*_TEXTS[part], "username", "password") if part == "user" else _TEXTS[part]
    for field in texts:
        if field in body:
            _expect(file, f"{path}.{field}", body[field], str)
    if "insecure-skip-tls-verify" in body:
        _expect(file, f"{path}.insecure-skip-tls-verify", body["insecure-skip-tls-verify"], bool)
    plugin = body.get("exec")
    if part == "user" and plugin is not None:
        path = f"{path}.exec"
        _expect(file, path, plugin, dict)
        for field in ("command", "apiVersion"):
            _expect(file, f"{path}.{field}", plugin.get(field), str)
        for number, argument in enumerate(_listed(file, f"{path}.args", plugin.get("args"))):
            _expect(file, f"{path}.args[{number}]", argument, str)
        for number, variable in enumerate(_listed(file, f"{path}.env", plugin.get("env"))):
            _expect(file, f"{path}.env[{number}]", variable, dict)
            for field in ("name", "value"):
                _expect(file, f"{path}.env[{number}].{field}", variable.get(field), str)


def _listed(file: str, path: str, value: Any) -> list[Any]:
    value = [] if value is None else value
    _expect(file, path, value, list)
    return list(value)


def _expect(file: str, path: str, value: Any, kind: type) -> None:
    """Never repeats the value: it may be a secret."""
    if not isinstance(value, kind):
        raise ConfigurationError(f"{path} is not {_TYPES[kind]} in the kubeconfig {file}", _LOOK)
