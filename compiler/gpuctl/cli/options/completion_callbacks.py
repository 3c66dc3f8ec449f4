"""Shell completion of names: contexts, clusters of the platform, services, and objects of the cluster.

A completion that fails or takes too long offers nothing. The module that finds the names is imported while a shell
completes, as the module of a command is while the command runs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module

import click

_LONGEST = 3.0
"""Seconds after which a completion is aborted, because the shell waits for it."""

Complete = Callable[[click.Context, click.Parameter, str], "list[str]"]


def _completion_callback(kind: str) -> Complete:
    """Return a callback for click that completes names of a kind, such as ``job``."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        # DNS, a credential plugin or a proxy may block without a deadline. Nothing has been printed yet.
        limit = threading.Timer(_LONGEST, os._exit, (0,))
        limit.daemon = True
        limit.start()
        # Click has left the context when it asks for completions, and options are read from the current context.
        # Exceptions are suppressed because a message would appear in the line that the user types.
        with suppress(Exception), context.scope(cleanup=False):
            names = import_module("gpuctl.cli.options.completed_names").names(kind, context)
            return sorted({name for name in names if name.startswith(incomplete)})
        return []

    return complete


complete_context = _completion_callback("context")
complete_cluster = _completion_callback("cluster")
complete_server = _completion_callback("server")
complete_job = _completion_callback("job")
complete_pool = _completion_callback("pool")
complete_node = _completion_callback("node")
complete_quota = _completion_callback("quota")
complete_queue = _completion_callback("queue")
complete_namespace = _completion_callback("namespace")
