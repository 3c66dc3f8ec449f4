"""Messages as values: a name, the English text and the values in it, worded in the language of the client.

``str()`` of a message is its text. It is English, unless :func:`set_request_translation` has set the texts of another
language for the current context, such as a request of the service. A text without a translation stays English. Nothing
compares the wording of a message.

Sentences of causes and fixes are made by :mod:`gpuctl.language.sentences`, under their English text as name.

To add a message, call :func:`message` with a new name where the message is made. Its Chinese text is in
``messages_zh_CN.yaml`` under that name, with the same placeholders, or some of them; `make docs` lists names without
one. A value may be a message, or a hint of :mod:`gpuctl.hints`: it is worded with the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import NamedTuple


class Translation:
    """The texts of a language by the names of messages. ``is_used``: a message was worded in it."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self.is_used = False

    def find(self, name: str) -> str | None:
        """Return the text of a message with placeholders; None without a translation."""
        text = self._texts.get(name)
        self.is_used = self.is_used or text is not None
        return text


_request: ContextVar[Translation | None] = ContextVar("translation", default=None)


def set_request_translation(value: Translation | None) -> None:
    """Set the language for the current context, such as a request's task and the threads it starts; None: English."""
    _request.set(value)


def request_translation() -> Translation | None:
    """Return the language of the current context; None: English."""
    return _request.get()


class UserMessage(NamedTuple):
    """A message for users. Placeholders in ``english`` are names of ``values``."""

    name: str
    english: str
    values: Mapping[str, object]

    def __str__(self) -> str:
        translation = _request.get()
        translated = translation.find(self.name) if translation is not None else None
        return (translated or self.english).format(**self.values)


def message(name: str, english: str, /, **values: object) -> UserMessage:
    """Return a message. Values that only a translation needs may be among ``values``."""
    return UserMessage(name, english, values)
