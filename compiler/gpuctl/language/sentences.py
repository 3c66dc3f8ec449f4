"""Sentences for users, made of a template and values, in the language of the client.

They are English, unless :func:`set_translation` has set another language for the current context, such as a
request of the service. To add one, call :func:`say` where it is made, and translate the template in
``sentences_zh_CN.yaml``: a test fails if it is missing. Nothing compares the wording of a sentence.

Numbers and lists have formats of their own, which the language decides: ``{pods:pod}`` is ``1 pod`` or ``2 pods``,
``{pods:is/are}`` a word by number, ``{names:and}`` and ``{names:or}`` a list, ``{names:few}`` its first three items
(``few4``: four), ``{parts:;}`` clauses. A list without a format has commas. A :class:`~gpuctl.hints.Phrase` as a value
is translated too, and a :class:`~gpuctl.objects.api_resources.Key` is written as the language writes it.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NewType

from gpuctl.language.display_text import and_list, count_text, first_few

Sentence = NewType("Sentence", str)
"""Text that :func:`say` has made; ``Sentence(text)`` quotes text that no language changes, such as a command."""
Template = NewType("Template", str)
"""A template in a table."""
_SIGN = "[\u3000-\u303f\uff00-\uffef]"
"""A full-width punctuation mark."""
_CHARACTER = "[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]"


class Translation:
    """The templates of a language by the English ones. ``is_used``: a sentence was made in it."""

    def __init__(self, templates: Mapping[str, str]) -> None:
        self._templates = templates
        self.is_used = False

    def find(self, template: str) -> str | None:
        """Return the translation of an English template; None without one."""
        found = self._templates.get(template)
        self.is_used = self.is_used or found is not None
        return found


_translation: ContextVar[Translation | None] = ContextVar("translation", default=None)


def set_translation(value: Translation | None) -> None:
    """Set the language for the current context, such as a request's task and the threads it starts; None: English."""
    _translation.set(value)


def current_translation() -> Translation | None:
    """Return the language of the current context; None: English."""
    return _translation.get()


def verb_of(*, dry_run: bool, done: str = "is") -> str:
    """Return the English verb of a change: ``done``, or ``would be`` in a dry run. Chinese sentences do not use it."""
    return "would be" if dry_run else done


def say(template: str, /, **values: object) -> Sentence:
    """Return a sentence with values, in the language of the context."""
    translation = current_translation()
    if translation is None:
        return Sentence(_ENGLISH.vformat(template, (), values))
    return Sentence(_CHINESE.vformat(translation.find(template) or template, (), values))


def clauses(*parts: str) -> Sentence:
    """Return the parts that are not empty as clauses of one sentence."""
    return say("{parts:;}", parts=[part for part in parts if part])


class _English(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> Any:
        if isinstance(value, list):
            return self.listed([self.format_field(item, "") for item in value], format_spec)
        if isinstance(value, int) and format_spec:
            one, _, many = format_spec.partition("/")
            return count_text(value, one) if not many else one if value == 1 else many
        return super().format_field(value, format_spec)

    def listed(self, items: list[str], form: str) -> str:
        """Return items in a form, such as ``and``."""
        if form.startswith("few"):
            return first_few(items, _few(form))
        if form == "list":
            return and_list(items)
        return {"and": " and ", "or": " or ", ";": "; "}.get(form, ", ").join(items)


class _Chinese(_English):
    def vformat(self, format_string: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        text = ""
        for literal, name, form, _ in self.parse(format_string):
            text = _joined(text, literal)
            if name is not None:
                text = _joined(text, self.format_field(kwargs[name], form or ""))
        return text.strip(" ")

    def format_field(self, value: Any, format_spec: str) -> Any:
        # Imported here: English texts need neither, and they take 2 ms of a cold start.
        from gpuctl.hints import Phrase
        from gpuctl.objects.api_resources import Key

        translation = current_translation()
        if isinstance(value, Phrase) and translation is not None:
            value = translation.find(str(value)) or value
        elif isinstance(value, Key) and value.namespace:
            return f"{value._replace(namespace='')}（{value.namespace}）"
        return super().format_field(value, format_spec)

    def listed(self, items: list[str], form: str) -> str:
        """Return items in a form, such as ``and``."""
        if form.startswith("few"):
            most = _few(form)
            return _joined("、".join(items[:most]), f" 等 {len(items)} 个" if len(items) > most else "")
        if form == "or" and len(items) > 1:
            *others, last = items
            return _joined(_joined("、".join(others), " 或 "), last)
        return {";": "；"}.get(form, "、").join(items)


def _few(form: str) -> int:
    return int(form.removeprefix("few") or 3)


def _joined(left: str, right: str) -> str:
    """Return a text and the next part of its template, with no space between two Chinese characters, else at most one.

    A template has spaces around its values, for names and numbers; a value may be a Chinese phrase, or empty.
    """
    before, after = left.rstrip(" "), right.lstrip(" ")
    near = before[-1:] + after[:1]
    is_wide = re.fullmatch(_CHARACTER * 2, near) or re.match(f"{_SIGN}.|.{_SIGN}", near)
    is_spaced = len(left + right) > len(before + after) and not is_wide
    return f"{before} {after}" if is_spaced else before + after


_ENGLISH, _CHINESE = _English(), _Chinese()
