"""Which cluster, as whom: kubeconfig, context, or the service account of a pod."""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpuctl.cluster.connection import CONCURRENCY, Connection
from gpuctl.cluster.errors import ConfigurationError
from gpuctl.cluster.kubeconfig import Chosen, choose
from gpuctl.cluster.transport import innermost

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def connect(*, kubeconfig: str | None = None, context: str | None = None) -> Connection:
    """Connect as kubectl would: ``--kubeconfig``, else ``KUBECONFIG``, else ``~/.kube/config``, else in a cluster.

    Nothing is sent yet.

    :raises ConfigurationError: no usable configuration.
    """
    import urllib3.exceptions
    from kubernetes import client

    configuration = client.Configuration()
    configuration.connection_pool_maxsize = 2 * CONCURRENCY
    files = kubeconfig or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    # kubectl leaves out files of the list that do not exist.
    present = [name for name in files.split(os.pathsep) if name and Path(name).expanduser().exists()]
    if not present and not kubeconfig and not context and "KUBERNETES_SERVICE_HOST" in os.environ:
        with _explained("the service account of this pod cannot be used"):
            _load_service_account(configuration)
            return Connection(client.ApiClient(configuration), _service_account_namespace(), "")
    if not present:
        raise ConfigurationError(
            f"there is no kubeconfig at {files}",
            "name one with --kubeconfig or KUBECONFIG; `make sandbox` starts a cluster to try",
        )
    chosen = choose(present, context)
    # Somebody who switched verification off knows.
    warnings.filterwarnings("ignore", category=urllib3.exceptions.InsecureRequestWarning)
    with _explained(f"the context {chosen.context} of the kubeconfig {' and '.join(chosen.files)} cannot be used"):
        _load(configuration, chosen)
        return Connection(client.ApiClient(configuration), chosen.namespace or "default", chosen.context)


def _load(configuration: Any, chosen: Chosen) -> None:
    from kubernetes import config as untyped

    config: Any = untyped
    with _spoken() as said:
        config.load_kube_config(
            config_file=os.pathsep.join(chosen.files),
            context=chosen.context,
            client_configuration=configuration,
            persist_config=False,
        )
    plugin = chosen.user.get("exec")
    if plugin is not None and said:
        # The official client would go on as nobody.
        raise ConfigurationError(
            f"the credential plugin {plugin['command']} of the user {chosen.user_name} failed: {_plain(said[-1])}",
            plugin["installHint"] if isinstance(plugin.get("installHint"), str) else "run it by hand to see more",
        )
    _renew_plainly(configuration)


def _renew_plainly(configuration: Any) -> None:
    """What goes wrong when credentials are renewed is raised, not logged."""
    renew = configuration.refresh_api_key_hook
    if renew is None:
        return

    def hook(current: Any) -> None:
        with _spoken() as said:
            renew(current)
        if said:
            raise ConfigurationError(_plain(said[-1]))

    configuration.refresh_api_key_hook = hook


def _load_service_account(configuration: Any) -> None:
    from kubernetes import config as untyped

    config: Any = untyped
    config.load_incluster_config(client_configuration=configuration)


def _service_account_namespace() -> str:
    with contextlib.suppress(OSError):
        return (_SERVICE_ACCOUNT / "namespace").read_text().strip() or "default"
    return "default"


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Failures of the official client as sentences."""
    import urllib3.exceptions
    from kubernetes.config.config_exception import ConfigException

    try:
        yield
    except (ConfigException, urllib3.exceptions.HTTPError, OSError, ValueError, TypeError) as error:
        raise ConfigurationError(f"{what}: {innermost(error)}", "`kubectl version` should work") from None


def _plain(message: str) -> str:
    """A message of the official client about a plugin: Python's own words mean that the output has another form."""
    if message.startswith("[Errno "):
        return message.partition("] ")[2].partition(":")[0].lower()
    if not message.startswith("exec: "):
        return "its output is no ExecCredential"
    return " ".join(message.removeprefix("exec: ").split())[:300]


class _Listener(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "root":
            self.said.append(record.getMessage())


@contextlib.contextmanager
def _spoken() -> Iterator[list[str]]:
    """What the official client logs, which would otherwise be printed: failures of credential plugins."""
    listener = _Listener()
    root = logging.getLogger()
    root.addHandler(listener)
    try:
        yield listener.said
    finally:
        root.removeHandler(listener)
