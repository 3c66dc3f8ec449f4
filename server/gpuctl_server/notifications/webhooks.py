"""Addresses of channels, and requests to them.

An address is a secret: it is read from a file or the environment whenever it is used, and appears in no message.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.webhook_request import post
from gpuctl.language.notify_block import Channel
from gpuctl.language.sentences import say
from gpuctl_server.notifications.messages import Message, rejection, request_of

_LARGEST = 8192


class NoAddress(Exception):
    """A channel has no address, or none that can be used; ``str()`` is a message without secrets."""


class Webhook(NamedTuple):
    """The address of a channel, and the secret with which it verifies requests."""

    address: str
    secret: str | None

    def __repr__(self) -> str:
        return "Webhook(...)"


class Webhooks:
    """The webhooks of the platform's channels.

    :param directory: files ``NAME.url`` and ``NAME.secret``; None: only the environment is read.
    """

    def __init__(
        self, channels: Mapping[str, Channel], directory: Path | None, environment: Mapping[str, str] | None = None
    ) -> None:
        self.channels = channels
        self._directory = directory
        self._environment = os.environ if environment is None else environment

    def webhook(self, name: str) -> Webhook:
        """Return the webhook of a channel.

        :raises NoAddress: it has none, or it is not the address of a web server.
        """
        address = self._read(name, "url")
        if not address:
            file = f"the file `{name}.url` in `notify_secrets`, or " if self._directory is not None else ""
            raise NoAddress(f"the channel {name} has no address: write it to {file}{_variable(name, 'url')}")
        if not _is_web_address(address):
            raise NoAddress(f"the address of the channel {name} is not an http or https URL: correct the secret")
        return Webhook(address, self._read(name, "secret") or None)

    def send(self, name: str, message: Message) -> None:
        """Post a message.

        :raises NoAddress: the channel has no address.
        :raises ClusterError: the webhook did not take it; the message contains no secret.
        """
        webhook, form = self.webhook(name), self.channels[name].format
        value, parameters = request_of(message, form, webhook.secret, time.time())
        body = post(_with_parameters(webhook.address, parameters), value)
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            answer = None
        problem = rejection(form, body, answer)
        if problem is not None:
            raise ClusterError(say("the webhook rejected the message: {error}", error=problem))

    def _read(self, name: str, what: str) -> str:
        if self._directory is not None:
            try:
                with (self._directory.expanduser() / f"{name}.{what}").open("rb") as file:
                    return file.read(_LARGEST).decode(errors="replace").strip()
            except FileNotFoundError:
                pass
            except OSError as error:
                raise NoAddress(
                    f"the file `{name}.{what}` in `notify_secrets` cannot be read: {error.strerror}"
                ) from None
        return self._environment.get(_variable(name, what), "").strip()


def _variable(name: str, what: str) -> str:
    return f"GPUCTL_NOTIFY_{name}_{what}".upper().replace("-", "_")


def _is_web_address(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and address.isprintable()
    except ValueError:
        return False


def _with_parameters(address: str, parameters: Mapping[str, str]) -> str:
    if not parameters:
        return address
    return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(parameters)}"
