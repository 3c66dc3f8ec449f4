"""Reading kubeconfig files: validation, and the choice of context, user and cluster.

Rules: ``k8s.io/client-go/tools/clientcmd`` (``loader.go``, ``validation.go``, ``api/v1/types.go``). If several files
define an entry, the first one counts, and relative paths are relative to their file. A setting of the chosen entries
that gpuctl does not support is an error: if it were ignored, gpuctl could act as another user than kubectl, or trust
another server.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from gpuctl.kube.api_errors import ConfigurationError
from gpuctl.language.display_text import visible
from gpuctl.language.names import is_dns_label
from gpuctl.objects.yaml_text import NotYaml, parse_yaml

Entry = dict[str, Any]

EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_LARGEST = 8 * 1024 * 1024
_TYPES: dict[type, str] = {str: "text", bool: "true or false", dict: "a mapping", list: "a list"}
_FIELDS: dict[str, dict[str, type]] = {
    "cluster": {
        "server": str,
        "tls-server-name": str,
        "insecure-skip-tls-verify": bool,
        "certificate-authority": str,
        "certificate-authority-data": str,
        "proxy-url": str,
        "disable-compression": bool,
        "extensions": list,
    },
    "user": {
        "token": str,
        "tokenFile": str,
        "client-certificate": str,
        "client-certificate-data": str,
        "client-key": str,
        "client-key-data": str,
        "username": str,
        "password": str,
        "as": str,
        "as-uid": str,
        "as-groups": list,
        "as-user-extra": dict,
        "extensions": list,
    },
    "context": {"cluster": str, "user": str, "namespace": str, "extensions": list},
    "exec": {
        "command": str,
        "apiVersion": str,
        "installHint": str,
        "interactiveMode": str,
        "provideClusterInfo": bool,
    },
}
_PARTS = frozenset({"clusters", "contexts", "users", "current-context"})
_MODES = ("Never", "IfAvailable", "Always")
_ANOTHER = "name another with --kubeconfig or KUBECONFIG"
_LOOK = "`kubectl config view` shows the merged configuration"


class KubeconfigEntry(NamedTuple):
    """An entry of a kubeconfig: its name, its file and its content."""

    name: str
    file: str
    body: Entry
    path: str
    """Path of the entry for messages: ``users[admin].user``."""

    def field_error(self, field: str, why: str, hint: str = _LOOK) -> ConfigurationError:
        """Return the error about a field. It never contains the field's value, which may be a secret."""
        return ConfigurationError(f"{self.path}.{field} of the kubeconfig {self.file} {why}", hint)

    def text(self, field: str) -> str:
        """Return a field as text; "" if it is not set."""
        return str(self.body.get(field) or "")

    def file_of(self, field: str) -> str | None:
        """Return the file that a field names, relative to the kubeconfig's directory; None if the field is not set."""
        return self.resolved(self.text(field)) if self.text(field) else None

    def resolved(self, path: str) -> str:
        """Return a path of this entry as an absolute path."""
        return os.path.join(os.path.dirname(os.path.abspath(os.path.expanduser(self.file))), path)


class ChosenContext(NamedTuple):
    """The chosen context: its name, namespace ("" if it has none), and the entries of its cluster and its user."""

    context: str
    namespace: str
    cluster: KubeconfigEntry
    user: KubeconfigEntry


def context_names(files: Sequence[str]) -> list[str]:
    """Return the names of the contexts that files define.

    :raises ConfigurationError: a file is not a kubeconfig.
    """
    return list(_merged([(name, _read(name)) for name in files], "context"))


def choose(files: Sequence[str], wanted: str | None) -> ChosenContext:
    """Read the files and find the context ``wanted``, or the current one.

    :raises ConfigurationError: a file is not a kubeconfig, refers to a missing entry, or has an unsupported setting.
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
        named = context.text(part)
        if not named:
            raise ConfigurationError(f"{title} has no {part}", _LOOK)
        if named not in found[part]:
            raise ConfigurationError(f"{title} refers to the {part} {visible(named)}, which does not exist", _LOOK)
    namespace = context.text("namespace")
    if namespace and not is_dns_label(namespace):
        raise ConfigurationError(f"{title} has the namespace {visible(namespace)}, which is not a legal name", _LOOK)
    cluster, user = found["cluster"][context.text("cluster")], found["user"][context.text("user")]
    for part, entry in (("cluster", cluster), ("user", user), ("context", context)):
        _refuse_unknown(entry, part)
    _check_user(user)
    return ChosenContext(name, namespace, cluster, user)


def _read(name: str) -> Entry:
    try:
        with open(os.path.expanduser(name), "rb") as stream:
            data = stream.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise ConfigurationError(f"the kubeconfig {name} is larger than {_LARGEST // 2**20} MiB", _ANOTHER)
        value = parse_yaml(data.decode("utf-8"))
    except OSError as error:
        raise ConfigurationError(
            f"the kubeconfig {name} cannot be read: {(error.strerror or str(error)).lower()}", _ANOTHER
        ) from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"the kubeconfig {name} is not text in UTF-8", _ANOTHER) from None
    except NotYaml as error:
        raise ConfigurationError(f"the kubeconfig {name} is not YAML{error}", _LOOK) from None
    if value is None:
        return {}
    if not isinstance(value, dict) or not (value.keys() & _PARTS or value.get("kind") == "Config"):
        raise ConfigurationError(f"{name} is not a kubeconfig: it has no clusters, contexts and users", _ANOTHER)
    current = value.get("current-context")
    _expect(name, "current-context", "" if current is None else current, str)
    return value


def _merged(contents: Iterable[tuple[str, Entry]], part: str) -> dict[str, KubeconfigEntry]:
    """Return the entries of one of the three lists by name; entries of earlier files take precedence."""
    found: dict[str, KubeconfigEntry] = {}
    for file, value in contents:
        for number, entry in enumerate(_listed(file, f"{part}s", value.get(f"{part}s"))):
            _expect(file, f"{part}s[{number}]", entry, dict)
            _expect(file, f"{part}s[{number}].name", entry.get("name"), str)
            path = f"{part}s[{visible(entry['name'])}].{part}"
            body = _stated(file, path, entry.get(part))
            _check(file, part, path, body)
            found.setdefault(entry["name"], KubeconfigEntry(entry["name"], file, body, path))
    return found


def _stated(file: str, path: str, value: Any) -> Entry:
    """Return a mapping without the keys that have no value: a field without a value counts as absent, as in kubectl."""
    _expect(file, path, {} if value is None else value, dict)
    return {field: content for field, content in (value or {}).items() if content is not None}


def _check(file: str, part: str, path: str, body: Entry) -> None:
    for field, kind in _FIELDS[part].items():
        if field in body:
            _expect(file, f"{path}.{field}", body[field], kind)
    if part != "user":
        return
    _texts(file, f"{path}.as-groups", body.get("as-groups"))
    for key, values in (body.get("as-user-extra") or {}).items():
        _expect(file, f"{path}.as-user-extra", key, str)
        _texts(file, f"{path}.as-user-extra[{visible(key)}]", values)
    if "exec" in body:
        body["exec"] = _stated(file, f"{path}.exec", body["exec"])
        _check_plugin(file, f"{path}.exec", body["exec"])


def _check_plugin(file: str, path: str, plugin: Entry) -> None:
    for field in ("command", "apiVersion"):
        _expect(file, f"{path}.{field}", plugin.get(field), str)
    for field, kind in _FIELDS["exec"].items():
        if field in plugin:
            _expect(file, f"{path}.{field}", plugin[field], kind)
    _texts(file, f"{path}.args", plugin.get("args"))
    for number, variable in enumerate(_listed(file, f"{path}.env", plugin.get("env"))):
        _expect(file, f"{path}.env[{number}]", variable, dict)
        for field in ("name", "value"):
            _expect(file, f"{path}.env[{number}].{field}", variable.get(field), str)


def _refuse_unknown(entry: KubeconfigEntry, part: str) -> None:
    """Raise an error for fields that gpuctl does not know: kubectl might act on them, or they are misspelt."""
    if part == "user" and entry.body.get("auth-provider") is not None:
        raise entry.field_error(
            "auth-provider", "is not supported by gpuctl", "use a credential plugin (`exec`) or a token"
        )
    known = {*_FIELDS[part], "exec", "auth-provider"}
    for field in entry.body:
        if field not in known:
            raise entry.field_error(visible(str(field)), "is not a field that gpuctl knows", "correct or remove it")
    for field in entry.body.get("exec") or () if part == "user" else ():
        if field not in {*_FIELDS["exec"], "args", "env"}:
            raise entry.field_error(
                f"exec.{visible(str(field))}", "is not a field that gpuctl knows", "correct or remove it"
            )


def _check_user(user: KubeconfigEntry) -> None:
    """Raise an error for fields that contradict or lack each other (``validateAuthInfo``)."""
    if user.text("username") and (user.text("token") or user.text("tokenFile")):
        raise user.field_error("username", "is set together with a token", "keep one of the two")
    for field in ("client-certificate", "client-key"):
        if user.text(field) and user.text(f"{field}-data"):
            raise user.field_error(field, f"is set together with {field}-data", "keep one of the two")
    has = {
        part: bool(user.text(f"client-{part}") or user.text(f"client-{part}-data")) for part in ("certificate", "key")
    }
    if has["certificate"] and not has["key"]:
        raise user.field_error("client-certificate", "is set without client-key")
    plugin = user.body.get("exec")
    if plugin is None:
        return
    if not plugin["command"]:
        raise user.field_error("exec.command", "is empty")
    if plugin["apiVersion"] not in EXEC_VERSIONS:
        raise user.field_error("exec.apiVersion", f"is not one of {' and '.join(EXEC_VERSIONS)}")
    mode = plugin.get("interactiveMode")
    if mode not in _MODES and not (mode is None and plugin["apiVersion"].endswith("/v1beta1")):
        raise user.field_error("exec.interactiveMode", f"is not one of {', '.join(_MODES)}")


def _texts(file: str, path: str, value: Any) -> None:
    for number, item in enumerate(_listed(file, path, value)):
        _expect(file, f"{path}[{number}]", item, str)


def _listed(file: str, path: str, value: Any) -> list[Any]:
    value = [] if value is None else value
    _expect(file, path, value, list)
    return list(value)


def _expect(file: str, path: str, value: Any, kind: type) -> None:
    """Raise an error unless a value has the expected type. The message never contains the value: it may be a secret."""
    if not isinstance(value, kind):
        raise ConfigurationError(f"{path} is not {_TYPES[kind]} in the kubeconfig {file}", _LOOK)
