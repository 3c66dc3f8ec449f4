"""``gpuctl-server channel list|test``: the platform's channels of notifications, with the secrets of this machine."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpuctl.kube.api_errors import ClusterError
from gpuctl.language.display_text import shorten
from gpuctl.language.settings import Settings
from gpuctl.language.spelling import did_you_mean
from gpuctl.language.translation_files import sentences_in
from gpuctl_server.notifications.messages import trial_message
from gpuctl_server.notifications.webhooks import NoAddress, Webhooks
from gpuctl_server.server_settings import ServerSettings


class ChannelCommandError(ValueError):
    """The command cannot be run; ``str()`` is a message for the user."""


def add_commands(commands: Any) -> None:
    """Add ``channel`` to the commands of a parser."""
    channel = commands.add_parser("channel", help="list and test the channels of job.notify")
    actions = channel.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("list", help="list channels, and whether they have an address")
    test = actions.add_parser("test", help="post a test message to a channel")
    test.add_argument("name", metavar="NAME")


def run(settings: ServerSettings, platform: Settings, options: argparse.Namespace) -> int:
    """Run a command. Return the exit code.

    :raises ChannelCommandError: there is no such channel, it has no address, or its webhook did not take the message.
    """
    webhooks = Webhooks(platform.notify.channels, settings.notify_secrets)
    if options.action == "list":
        return _list(webhooks)
    channel = webhooks.channels.get(options.name)
    if channel is None:
        hint = did_you_mean(options.name, webhooks.channels) or "add it to `notify.channels` of the platform"
        raise ChannelCommandError(f"the platform has no channel `{shorten(options.name)}`: {hint}")
    try:
        with sentences_in(channel.language):
            webhooks.send(options.name, trial_message(options.name))
    except NoAddress as problem:
        raise ChannelCommandError(str(problem)) from None
    except ClusterError as error:
        raise ChannelCommandError(f"channel {options.name}: {error.message}") from None
    print(f"the channel {options.name} has taken a test message", file=sys.stderr)
    return 0


def _list(webhooks: Webhooks) -> int:
    for name, channel in webhooks.channels.items():
        try:
            state = "signed" if webhooks.webhook(name).secret is not None else "ready"
        except NoAddress as problem:
            state = str(problem)
        print(f"{name}  {channel.format}  {','.join(channel.namespaces) or 'all namespaces'}  {state}")
    return 0
