"""Lowers ``code`` to an init container and a volume, and lifts it back."""

from __future__ import annotations

from typing import Any

from gpuctl.backend.code_config_map import (
    EMPTY_DIRECTORY,
    PATH_VARIABLE,
    UNPACK,
    archive_mount,
    archive_variables,
    archive_volume,
    lift_archive,
)
from gpuctl.backend.lowering_context import Context
from gpuctl.backend.variables import env_value, literal_text, literal_value
from gpuctl.backend.visible_devices import no_visible_devices
from gpuctl.frontend.document import Document
from gpuctl.language.code_block import CODE_DIRECTORY, Code, git_host
from gpuctl.language.kinds import Job
from gpuctl.language.names import CODE_CONTAINER
from gpuctl.objects.api_resources import Object

Data = dict[str, Any]

CODE_VOLUME = "code"
LOGIN_VOLUME = "code-login"
_LOGIN_DIRECTORY = "/etc/gpuctl/git"
_URL, _REF = "GPUCTL_CODE_GIT", "GPUCTL_CODE_REF"

# The commits of submodules are often in no branch's last commit, so their whole history is fetched.
_SUBMODULES = "git submodule --quiet update --init --recursive\n"
_SSH = (
    f"ssh -i /tmp/ssh-privatekey -o IdentitiesOnly=yes -o StrictHostKeyChecking=yes "
    f"-o UserKnownHostsFile={_LOGIN_DIRECTORY}/known_hosts"
)
_HELPER = (
    '!f() { test "$1" = get || exit 0; '
    r"""printf 'username=%s\npassword=%s\n' "${GPUCTL_GIT_USERNAME:-git}" "$GPUCTL_GIT_PASSWORD"; }; f"""
)


def code_volumes(context: Context, document: Document, model: Job) -> tuple[list[Object], list[Object]]:
    """Return the volumes for the code, and the mount of the program; empty without code."""
    if model.code is None:
        return [], []
    volumes: list[Object] = [{"name": CODE_VOLUME, "emptyDir": {}}]
    if model.code.local is not None:
        volumes.append(archive_volume(document, model))
    secret = context.settings.code_secret(model.code)
    if secret is not None and model.code.uses_ssh:
        volumes.append({"name": LOGIN_VOLUME, "secret": {"secretName": secret}})
    return volumes, [{"name": CODE_VOLUME, "mountPath": CODE_DIRECTORY}]


def code_container(context: Context, document: Document, model: Job, resources: Object) -> Object:
    """Return the init container that fetches or unpacks the code.

    :param resources: those of the program, so that the pod requests no more with the container than without.
    """
    code = model.code
    assert code is not None
    secret = context.settings.code_secret(code)
    mounts: list[Object] = [{"name": CODE_VOLUME, "mountPath": CODE_DIRECTORY}]
    if code.local is not None:
        mounts.append(archive_mount())
    if secret is not None and code.uses_ssh:
        mounts.append({"name": LOGIN_VOLUME, "mountPath": _LOGIN_DIRECTORY, "readOnly": True})
    own = _variables(code, secret) if code.local is None else archive_variables(document, model)
    container: Object = {
        "name": CODE_CONTAINER,
        "image": context.settings.platform.code.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", _script(code)],
        "env": [*no_visible_devices(context), *own],
    }
    amounts = {name: amount for name, amount in resources.items() if name in ("cpu", "memory")}
    if amounts:
        container["resources"] = {"requests": amounts, "limits": dict(amounts)}
    container["volumeMounts"] = mounts
    container["terminationMessagePolicy"] = "FallbackToLogsOnError"
    return container


def _script(code: Code) -> str:
    if code.local is not None:
        return UNPACK
    submodules = _SUBMODULES if code.submodules else ""
    # A server that sends no single commits sends all branches and tags.
    return f"""\
{EMPTY_DIRECTORY}\
if [ -e {_LOGIN_DIRECTORY}/ssh-privatekey ]; then
  rm -f /tmp/ssh-privatekey
  (umask 077; cp {_LOGIN_DIRECTORY}/ssh-privatekey /tmp/)
fi
git init -q .
git config remote.origin.url "${_URL}"
if git fetch -q --depth 1 origin "${_REF}"; then
  git checkout -q --detach FETCH_HEAD
else
  git fetch -q origin '+refs/heads/*:refs/remotes/origin/*' '+refs/tags/*:refs/tags/*'
  git checkout -q --detach "${_REF}"
fi
{submodules}git log -1 --format='gpuctl: the code is commit %H'
if [ ! -d "./${PATH_VARIABLE}" ]; then
  echo "gpuctl: the repository has no directory ${PATH_VARIABLE} in this commit" >&2
  exit 1
fi
"""


def _variables(code: Code, secret: str | None) -> list[Object]:
    """Return the variables of the container. No text of a document is part of the script."""
    url = code.git or ""
    texts = ((_URL, url), (_REF, code.ref or ""), (PATH_VARIABLE, code.path or ""))
    variables = [literal_value(name, text) for name, text in texts]
    variables += [env_value("HOME", "/tmp"), env_value("GIT_TERMINAL_PROMPT", 0)]  # noqa: S108 - the container's own
    # The volume belongs to root, whichever user the container has.
    options = {"safe.directory": "*"}
    if secret is not None and code.uses_ssh:
        variables.append(env_value("GIT_SSH_COMMAND", _SSH))
    elif secret is not None:
        for name, key in (("GPUCTL_GIT_USERNAME", "username"), ("GPUCTL_GIT_PASSWORD", "password")):
            reference = {"name": secret, "key": key, **({"optional": True} if key == "username" else {})}
            variables.append({"name": name, "valueFrom": {"secretKeyRef": reference}})
        # The login is for this host only, also after a redirect.
        options[f"credential.{'/'.join(url.split('/')[:3])}.helper"] = _HELPER
    variables.append(env_value("GIT_CONFIG_COUNT", len(options)))
    for index, (name, value) in enumerate(options.items()):
        variables += [env_value(f"GIT_CONFIG_KEY_{index}", name), env_value(f"GIT_CONFIG_VALUE_{index}", value)]
    return variables


def lift_code(context: Context, pod: Object) -> Data:
    """Return the ``code:`` block of a pod; empty without code."""
    container: Object = next((item for item in pod.get("initContainers", []) if item["name"] == CODE_CONTAINER), {})
    variables = {item["name"]: item for item in container.get("env", [])}
    if local := lift_archive(variables):
        return local
    texts = {name: literal_text(variables.get(name)) for name in (_URL, _REF, PATH_VARIABLE)}
    if not texts[_URL] or not texts[_REF]:
        return {}
    data: Data = {"git": texts[_URL], "ref": texts[_REF]}
    if texts[PATH_VARIABLE]:
        data["path"] = texts[PATH_VARIABLE]
    if _SUBMODULES in container["command"][-1]:
        data["submodules"] = True
    secret = _login(pod, variables)
    if secret is not None and secret != context.settings.platform.code.secrets.get(git_host(texts[_URL])):
        data["secret"] = secret
    return data


def _login(pod: Object, variables: dict[str, Object]) -> str | None:
    """Return the name of the Secret with the login, or None."""
    volume: Object = next((item for item in pod.get("volumes", []) if item["name"] == LOGIN_VOLUME), {})
    reference = variables.get("GPUCTL_GIT_PASSWORD", {}).get("valueFrom", {}).get("secretKeyRef", {})
    name: str | None = volume.get("secret", {}).get("secretName") or reference.get("name")
    return name
