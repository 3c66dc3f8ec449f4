"""Sentences made of a template and values, in the language that :mod:`gpuctl.messages` has for the request.

The English template is written where the sentence is made, and is the name of its translation in
``sentences_zh_CN.yaml``. A template without a translation stays English; ``make docs`` lists it.

Numbers and lists have formats of their own, which the language decides: ``{pods:pod}`` is ``1 pod`` or ``2 pods``,
``{pods:is/are}`` a word by number, ``{names:and}`` and ``{names:or}`` a list, ``{names:few}`` its first three items
(``few4``: four), ``{parts:;}`` clauses. A list without a format has commas.
"""

from __future__ import annotations

import string
from typing import Any, NewType

from gpuctl.language.display_text import and_list, count_text, first_few
from gpuctl.messages import request_translation

Sentence = NewType("Sentence", str)
"""Text that :func:`say` has made; ``Sentence(text)`` quotes text that no language changes, such as a command."""
Template = NewType("Template", str)
"""A template in a table."""


def say(template: str, /, **values: object) -> Sentence:
    """Return a sentence with values, in the language of the context."""
    translation = request_translation()
    if translation is None:
        return Sentence(_ENGLISH.vformat(template, (), values))
    return Sentence(_CHINESE.vformat(translation.find(template) or template, (), values))


class _English(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> Any:
        if isinstance(value, list):
            return self.listed(list(map(str, value)), format_spec)
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
    def listed(self, items: list[str], form: str) -> str:
        """Return items in a form, such as ``and``."""
        if form.startswith("few"):
            most = _few(form)
            return "、".join(items[:most]) + (f" 等 {len(items)} 个" if len(items) > most else "")
        return {"or": " 或 ", ";": "；"}.get(form, "、").join(items)


def _few(form: str) -> int:
    return int(form.removeprefix("few") or 3)


_ENGLISH, _CHINESE = _English(), _Chinese()
