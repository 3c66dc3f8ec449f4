"""Which cluster, as whom: kubeconfig, context, or the service account of a pod."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpuctl.cluster.connection import CONCURRENCY, Connection, innermost
from gpuctl.cluster.errors import ConfigurationError

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def connect(*, kubeconfig: str | None = None, context: str | None = None) -> Connection:
    """Connect as kubectl would: ``--kubeconfig``, else ``KUBECONFIG``, else ``~/.kube/config``, else in a cluster.

    Nothing is sent yet.

    :raises ConfigurationError: no usable configuration.
    """
    import urllib3.exceptions
    from kubernetes import client
    from kubernetes import config as untyped
    from kubernetes.config.config_exception import ConfigException

    config: Any = untyped
    configuration = client.Configuration()
    configuration.connection_pool_maxsize = 2 * CONCURRENCY
    files = kubeconfig or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    present = [name for name in files.split(os.pathsep) if name and Path(name).expanduser().exists()]
    try:
        if kubeconfig is None and not present and "KUBERNETES_SERVICE_HOST" in os.environ:
            config.load_incluster_config(client_configuration=configuration)
            namespace, name = _service_account_namespace(), ""
        elif not present:
            raise ConfigurationError(
                f"there is no kubeconfig at {files}",
                "name one with --kubeconfig or KUBECONFIG; `make sandbox` starts a cluster to try",
            )
        else:
            # kubectl leaves out files of the list that do not exist.
            existing = os.pathsep.join(present)
            namespace, name = _context(config, existing, context)
            with _quiet():
                config.load_kube_config(
                    config_file=existing, context=context, client_configuration=configuration, persist_config=False
                )
        api_client = client.ApiClient(configuration)
    except (ConfigException, urllib3.exceptions.HTTPError) as error:
        raise ConfigurationError(f"the kubeconfig {files} cannot be used: {innermost(error)}") from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigurationError(f"the kubeconfig {files} cannot be used: {innermost(error)}") from None
    except Exception as error:
        if type(error).__module__.startswith("yaml"):
            raise ConfigurationError(f"the kubeconfig {files} is not YAML: {innermost(error)}") from None
        raise
    return Connection(api_client, namespace, name)


def _context(config: Any, files: str, context: str | None) -> tuple[str, str]:
    contexts, active = config.list_kube_config_contexts(files)
    if context is not None:
        names = [item["name"] for item in contexts]
        if context not in names:
            raise ConfigurationError(f"the kubeconfig has no context {context}", f"it has: {', '.join(names)}")
        active = contexts[names.index(context)]
    return (active.get("context") or {}).get("namespace") or "default", active["name"]


def _service_account_namespace() -> str:
    with contextlib.suppress(OSError):
        return (_SERVICE_ACCOUNT / "namespace").read_text().strip() or "default"
    return "default"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The official client logs failures of credential plugins, which the exception says again."""
    import logging

    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
