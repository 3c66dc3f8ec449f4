"""The ``sweep:`` block of a training: one job for each combination of values."""

import math
import re
from itertools import product
from typing import Annotated

from pydantic import Field, model_validator

from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import Block, Check, JobName, Scalar, Text
from gpuctl.language.sentences import Sentence, say
from gpuctl.language.spelling import did_you_mean, fold
from gpuctl.language.yaml_notation import in_yaml
from gpuctl.objects.sweep_names import MOST_SWEEP_JOBS, job_name

_MOST_PRODUCTS = 100_000
INCLUDE, EXCLUDE = "include", "exclude"
_SEPARATOR = r"[ \t]*[,，、][ \t]*"
"""Matches between values that are written as one text."""
_PARALLELISM = frozenset({"parallelism", "maxparallel", "parallel"})
_NAMED = 8


def _parameter_name(value: str) -> str:
    if re.fullmatch(r"(?a)[A-Za-z_][A-Za-z0-9_-]*", value) is None:
        message = say(
            "`{value}` is not a legal name of a parameter: letters, digits, `_` and `-`, first a letter", value=value
        )
        raise field_error("GPU207", message, say("`{{{{sweep.NAME}}}}` stands for its value"))
    return value


ParameterName = Annotated[str, Scalar.TEXT, Check(_parameter_name, "parameter name")]
Combination = dict[str, str]
"""The values of one job: parameter -> text as written."""
SweepValues = dict[ParameterName, Text | list[Text | dict[ParameterName, Text]]]


class Membership(Block):
    """The place of a job in a sweep."""

    name: JobName = Field(description="Name of the sweep.", examples=["tune"])
    values: dict[ParameterName, Text] = Field(
        description="The job's value of each parameter, as `get jobs --sweep` shows it.",
        examples=[{"lr": "1e-5", "seed": "1"}],
    )


class Sweep(Block):
    """The combinations of a sweep, checked."""

    sweep: SweepValues

    @property
    def combinations(self) -> list[Combination]:
        """Return the values of each job: the last parameter varies fastest; those of ``include`` are the last.

        The place in this list is a job's number: values that are appended to the first parameter change no number
        unless there is an ``include``.
        """
        lists = self._lists()
        combined = (dict(zip(lists, values, strict=True)) for values in product(*lists.values())) if lists else ()
        excluded = self._entries(EXCLUDE)
        kept = [found for found in combined if not any(entry.items() <= found.items() for entry in excluded)]
        names = list(lists) or [name for entry in self._entries(INCLUDE)[:1] for name in entry]
        return kept + [{name: entry[name] for name in names} for entry in self._entries(INCLUDE)]

    def _lists(self) -> dict[str, list[str]]:
        """Return the values of each parameter."""
        found = {name: value for name, value in self.sweep.items() if name not in (INCLUDE, EXCLUDE)}
        return {
            name: [value] if isinstance(value, str) else [item for item in value if isinstance(item, str)]
            for name, value in found.items()
        }

    def _entries(self, field: str) -> list[Combination]:
        """Return the combinations of ``include`` or ``exclude``."""
        found = self.sweep.get(field, [])
        return [] if isinstance(found, str) else [entry for entry in found if isinstance(entry, dict)]

    @model_validator(mode="after")
    def _consistent(self) -> "Sweep":
        for name, value in self.sweep.items():
            self._check_parameter(name, value)
        for field in (INCLUDE, EXCLUDE):
            self._check_entries(field)
        self._check_number()
        return self

    def _check_parameter(self, name: str, value: object) -> None:
        """Raise an error for a parameter whose values are not a list of different texts."""
        wants = dict if name in (INCLUDE, EXCLUDE) else str
        if fold(name) in _PARALLELISM and isinstance(value, str):
            raise field_error(
                "GPU226",
                say(
                    "a sweep has no `{name}`: its jobs are separate, and Kubernetes does not limit how many run",
                    name=name,
                ),
                say(
                    "remove it; the quota of a Kueue queue, or an `array` with `parallelism`, limits what runs "
                    "at a time"
                ),
                ("sweep", name),
            )
        if wants is dict and isinstance(value, str):
            hint = say("write `{text}`", text=f"{name}: [{{NAME: VALUE}}]")
            raise field_error("GPU226", say("`{name}` is a list of combinations", name=name), hint, ("sweep", name))
        parts = re.split(_SEPARATOR, value) if isinstance(value, str) else []
        if len(parts) > 1:
            raise field_error(
                "GPU226",
                say("`{name}` has one value, a text with commas", name=name),
                say(
                    "write `{list}`, or `{text}` for one value",
                    list=f"{name}: {in_yaml(parts)}",
                    text=f"{name}: {in_yaml([value])}",
                ),
                ("sweep", name),
            )
        entries = [value] if isinstance(value, str) else value
        assert isinstance(entries, list)
        if not entries:
            hint = say("give it a value, or remove the line")
            raise field_error("GPU226", say("`{name}` has no values", name=name), hint, ("sweep", name))
        for index, entry in enumerate(entries):
            place = ("sweep", name, index) if isinstance(value, list) else ("sweep", name)
            if not isinstance(entry, wants):
                message = say("each entry of `{name}` is a mapping of parameters to values", name=name)
                hint = say("write `{text}`", text="{NAME: VALUE}")
                if wants is str:
                    message = say("each entry of `{name}` is a single value", name=name)
                    hint = say("write combinations in `include`")
                raise field_error("GPU226", message, hint, place)
            if entry in entries[:index]:
                shown = ", ".join(f"{key}={text}" for key, text in entry.items()) if isinstance(entry, dict) else entry
                message = say("`{shown}` is twice in `{name}`: two jobs would be equal", shown=shown, name=name)
                hint = say("remove one; to repeat a run, add a parameter such as `seed: [1, 2]`")
                raise field_error("GPU226", message, hint, place)

    def _check_entries(self, field: str) -> None:
        """Raise an error for an entry of ``include`` or ``exclude`` that does not match the parameters."""
        lists, entries = self._lists(), self._entries(field)
        names = list(lists) or (list(entries[0]) if field == INCLUDE and entries else [])
        for index, entry in enumerate(entries):
            place = ("sweep", field, index)
            for name in entry:
                if name not in names:
                    hint = did_you_mean(name, names) or say("the parameters are {names:few8}", names=names)
                    hint = hint if names else say("add the parameters and their values to `sweep`")
                    raise field_error(
                        "GPU226", say("the sweep has no parameter `{name}`", name=name), hint, (*place, name)
                    )
            lacking = [name for name in names if name not in entry]
            if field == INCLUDE and lacking:
                message = say(
                    "an entry of `include` is a whole combination, and this one lacks `{name}`", name=lacking[0]
                )
                raise field_error("GPU226", message, say("add `{name}`", name=lacking[0]), place)
        if field == EXCLUDE:
            for index, entry in enumerate(entries):
                wrong = next((name for name in entry if entry[name] not in lists[name]), None)
                if wrong is not None or not entry:
                    message = say("this entry of `exclude` is no combination of the sweep")
                    hint = (
                        say("the values of `{name}` are {values:few8}", name=wrong, values=lists[wrong])
                        if wrong
                        else say("remove it")
                    )
                    raise field_error("GPU226", message, hint, ("sweep", field, index))

    def _check_number(self) -> None:
        """Raise an error for a sweep without jobs, or with too many or with equal ones."""
        products = math.prod(len(values) for values in self._lists().values())
        found = self.combinations if products <= _MOST_PRODUCTS else []
        number = len(found) if products <= _MOST_PRODUCTS else products
        if number > MOST_SWEEP_JOBS:
            message = say(
                "the sweep has {number} jobs, and can have {most}",
                number=f"{number:,}",
                most=f"{MOST_SWEEP_JOBS:,}",
            )
            hint = say("use fewer values, or an `array`, whose program computes its values from GPUCTL_ARRAY_INDEX")
            raise field_error("GPU225", message, hint, ("sweep",))
        if not found and products and self._lists():
            message = say("the sweep has no jobs: all combinations are excluded")
            raise field_error("GPU225", message, say("remove an entry of `exclude`"), ("sweep", EXCLUDE))
        if not found:
            raise field_error("GPU225", say("the sweep has no jobs"), say("add `NAME: [VALUE, VALUE]`"), ("sweep",))
        first = len(found) - len(self._entries(INCLUDE))
        for index, combination in enumerate(found[first:]):
            if combination in found[:first]:
                message = say("this entry of `include` is already a combination of the sweep")
                raise field_error("GPU226", message, say("remove it"), ("sweep", INCLUDE, index))


def longest_sweep_name(jobs: int, longest: int) -> tuple[int, Sentence]:
    """Return the maximum length of the name of a sweep, and the reason.

    :param longest: maximum length of the name of a job.
    """
    last = job_name("", jobs - 1)
    return longest - len(last), say("its jobs are called {first} to NAME{last}", first=job_name("NAME", 0), last=last)


def described(values: Combination) -> str:
    """Return the values of a job as text: ``lr=1e-5, seed=1``."""
    return ", ".join(f"{name}={value}" for name, value in values.items())
