"""The types of names and texts, each with Kubernetes' rule for it, and what all types of values share.

Every type is ``Annotated`` with a :class:`Scalar`, which defines how the binder reads a YAML scalar for it. A
``Scalar.TEXT`` field gets the text exactly as written in the file: ``2e-5``, ``yes`` and ``012`` are not converted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

from gpuctl.language import names
from gpuctl.language.cron import CronProblem, parse_cron
from gpuctl.language.display_text import shorten
from gpuctl.language.exclusions import Exclusion
from gpuctl.language.field_errors import field_error
from gpuctl.language.images import image_problem
from gpuctl.language.mig_profiles import is_profile, nearest_profile
from gpuctl.language.sentences import Sentence, Template, say
from gpuctl.language.spelling import did_you_mean, similar


class Scalar(Enum):
    """The type as which a YAML scalar is read."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    FREE = "free"


@dataclass(frozen=True)
class Check(AfterValidator):
    """A validator that returns its value unchanged. ``name``: the type of the values that pass it, in words.

    Pydantic inspects the signature of every validator. These all take one value; declaring that saves a tenth of the
    time of a cold start.
    """

    name: str

    def __get_pydantic_core_schema__(self, source_type: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self.func, handler(source_type))  # type: ignore[arg-type]


class Partial:
    """Marks a mapping that is a document of ``kind`` in which every field is optional."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


class Block(BaseModel):
    """A mapping with known keys. Models are frozen: a compile never changes its input."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        defer_build=True,
        populate_by_name=True,
        use_attribute_docstrings=False,
    )
    exclusions: ClassVar[tuple[Exclusion, ...]] = ()


# Factories in place of `list` and `dict`: pydantic inspects the signature of each. For types written in C that is text,
# and parsing it imports Python's tokenizer and parser, a fiftieth of a cold start.


def empty_list() -> list[Any]:
    """Return the default of a list."""
    return []


def empty_dict() -> dict[str, Any]:
    """Return the default of a mapping."""
    return {}


# Pools, amounts, images and variables repeat across documents. Errors are not cached.
cached = lru_cache(maxsize=4096)


def illegal(code: str, value: str, problem: Template, better: str | None = None) -> PydanticCustomError:
    """Return the error that a value is not legal, with the nearest legal value as the hint.

    :param problem: the template of the message, with the value as ``{value}``.
    """
    hint = no_variables(value) or (say("write `{text}`", text=better) if better else None)
    return field_error(code, say(problem, value=shorten(value)), hint)


def no_variables(value: str) -> Sentence | None:
    """Return the hint for a value with shell variables, which gpuctl does not expand; None without any."""
    if re.search(r"\$\{?[A-Za-z_]", value) is None:
        return None
    return say("gpuctl reads no variables of the shell: write the value, or `envsubst < FILE | gpuctl ... -f -`")


def _dns_1035(value: str) -> str:
    if not names.is_dns_1035_label(value):
        problem = Template(
            "`{value}` is not a legal job name: at most 63 lower-case letters, digits and `-`, first a letter "
            "and last no `-`"
        )
        better = names.nearest_dns_label(value, letter_first=True)
        if better is None and not value.isascii() and no_variables(value) is None:
            hint = say("choose a name of ASCII letters and digits; `job.description` holds any text")
            raise field_error("GPU207", say(problem, value=shorten(value)), hint)
        raise illegal("GPU207", value, problem, better)
    return value


@cached
def _dns_label(value: str) -> str:
    if not names.is_dns_label(value):
        problem = Template(
            "`{value}` is not a legal name: at most 63 lower-case letters, digits and `-`, "
            "not starting or ending in `-`"
        )
        raise illegal("GPU207", value, problem, names.nearest_dns_label(value))
    return value


@cached
def _object_name(value: str) -> str:
    if not names.is_dns_subdomain(value):
        problem = Template("`{value}` is not a legal object name: at most 253 lower-case letters, digits, `-` and `.`")
        raise illegal("GPU207", value, problem, names.nearest_dns_label(value))
    return value


def _namespaced_name(value: str) -> str:
    namespace, slash, name = value.partition("/")
    if not slash or not names.is_dns_label(namespace) or not names.is_dns_subdomain(name):
        raise illegal("GPU207", value, Template("`{value}` is not a name with its namespace such as `infra/public`"))
    return value


@cached
def _label_value(value: str) -> str:
    if not names.is_label_value(value):
        problem = Template(
            "`{value}` is not a legal label value: at most 63 letters, digits, `-`, `_` and `.`, "
            "starting and ending with a letter or digit"
        )
        raise illegal("GPU212", value, problem, names.nearest_label_value(value))
    return value


def _required_label_value(value: str) -> str:
    if not value:
        raise field_error("GPU205", say("the value is empty"), say("give it a value or remove the line"))
    return _label_value(value)


def _label_key(value: str) -> str:
    if not names.is_qualified_name(value):
        problem = Template(
            "`{value}` is not a legal label or annotation key: an optional DNS prefix and `/`, then at most "
            "63 letters, digits, `-`, `_` and `.`"
        )
        raise illegal("GPU212", value, problem)
    return value


def _domain(value: str) -> str:
    if not names.is_dns_subdomain(value):
        host = value.partition("://")[2].partition("/")[0]
        raise illegal(
            "GPU207",
            value,
            Template("`{value}` is not a DNS domain such as `runwhere.ai`"),
            host if names.is_dns_subdomain(host) else None,
        )
    return value


@cached
def _env_name(value: str) -> str:
    if not names.is_env_name(value):
        problem = Template(
            "`{value}` is not a legal environment variable name: letters, digits, `_`, `-` and `.`, "
            "not starting with a digit"
        )
        raise illegal("GPU215", value, problem)
    return value


def _port_name(value: str) -> str:
    if not names.is_port_name(value):
        problem = Template(
            "`{value}` is not a legal port name: at most 15 lower-case letters, digits and single `-`, "
            "with at least one letter"
        )
        raise illegal("GPU207", value, problem)
    return value


def is_capability(value: str) -> bool:
    """Return True for the name of a Linux capability as Kubernetes writes it, without `CAP_`."""
    return re.fullmatch(r"(?a)[A-Z][A-Z_]*", value) is not None and not value.startswith("CAP_")


def _capability(value: str) -> str:
    if not is_capability(value):
        better = value.strip().upper().removeprefix("CAP_")
        hint = say("write `{text}`", text=better) if is_capability(better) else no_variables(value)
        raise field_error("GPU206", say("`{value}` is not a capability such as `IPC_LOCK`", value=shorten(value)), hint)
    return value


@cached
def _image(value: str) -> str:
    if not value:
        raise field_error("GPU205", say("the image is empty"), say("name a container image"))
    if "$" in value:
        message = say("`{value}` holds a `$`, which no image name has", value=shorten(value))
        raise field_error("GPU216", message, no_variables(value))
    wrong = image_problem(value)
    if wrong is not None:
        message = say("the image `{image}` {problem}", image=shorten(value), problem=shorten(wrong[0], 200))
        raise field_error("GPU216", message, wrong[1])
    return value


def _gpu_profile(value: str) -> str:
    if not is_profile(value):
        raise illegal(
            "GPU233", value, Template("`{value}` is not a MIG profile such as `1g.10gb`"), nearest_profile(value)
        )
    return value


def _data_key(value: str) -> str:
    if not names.is_data_key(value):
        raise illegal(
            "GPU212",
            value,
            Template("`{value}` is not a key of a Secret or ConfigMap: at most 253 letters, digits, `-`, `_` and `.`"),
        )
    return value


def _pod_field(value: str) -> str:
    if not names.is_pod_field(value):
        hint = did_you_mean(value, names.POD_FIELDS) or say("write one of {names}", names=list(names.POD_FIELDS))
        raise field_error(
            "GPU211", say("`{value}` is not a field of a pod that a variable can read", value=shorten(value)), hint
        )
    return value


def _server(value: str) -> str:
    if not names.is_host(value):
        raise illegal(
            "GPU207", value, Template("`{value}` is not the name or address of a server such as `nfs.example.com`")
        )
    return value


def _server_url(value: str) -> str:
    match = re.fullmatch(r"(?i)https?://(?:\[[0-9a-f:.]+\]|[-a-z0-9_.]+)(?::([0-9]{1,5}))?(?:/[^\s?#@]*)?", value)
    if match is None or not 0 < int(match[1] or 1) < 65536:
        raise illegal(
            "GPU207",
            value,
            Template("`{value}` is not the address of an API server such as `https://api.example.com:6443`"),
        )
    return value


def _uid(value: str) -> str:
    if re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", value) is None:
        lower = value.strip().lower()
        better = lower if lower != value and re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", lower) else None
        raise illegal(
            "GPU207", value, Template("`{value}` is not a uid such as `0b0a1f6e-5a3f-4c5e-9d53-3d1f0c1f8f3a`"), better
        )
    return value


def _date(value: str) -> str:
    match = re.fullmatch(r"(?a)(\d{4})-(\d{2})-(\d{2})", value)
    year, month, day = map(int, match.groups()) if match else (0, 0, 0)
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    days = 28 + is_leap if month == 2 else 30 + (month + month // 8) % 2
    if not (year and 1 <= month <= 12 and 1 <= day <= days):
        raise illegal("GPU207", value, Template("`{value}` is not a date such as `2026-10-01`"))
    return value


_SIMILAR_ZONES = 0.87
"""Similarity of a misspelt time zone. That of `GMT+8` and `GMT+0` is 0.8."""


@lru_cache(maxsize=1)
def _known_zones() -> set[str]:
    """Return the time zones of this machine. Reading their directories takes 12 ms."""
    from zoneinfo import available_timezones

    return available_timezones()


def _time_zone(value: str) -> str:
    # Imported here: it takes 4 ms of every cold start.
    from zoneinfo import ZoneInfo

    try:
        # Names of directories and paths are not time zones.
        if re.fullmatch(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}", value):
            ZoneInfo(value)
            return value
    except (KeyError, ValueError, OSError):
        pass
    near = next(iter(similar(value, _known_zones(), _SIMILAR_ZONES)), None)
    raise illegal("GPU207", value, Template("`{value}` is not a time zone such as `Asia/Shanghai`"), near)


def _cron(value: str) -> str:
    try:
        parse_cron(value)
    except CronProblem as problem:
        raise field_error(
            "GPU223", say("`{value}`: {problem}", value=shorten(value), problem=str(problem)), problem.hint
        ) from problem
    return value


def _nonempty(value: str) -> str:
    if not value.strip():
        raise field_error("GPU205", say("the value is empty"), say("give it a value or remove the line"))
    return value


def _no_nul(value: str) -> str:
    # The YAML reader accepts NUL only as the escape \0; neither execve nor the API server's JSON accepts it.
    if "\0" in value:
        raise field_error("GPU202", say("the text contains a NUL character, which no process can receive"))
    return value


Text = Annotated[str, Scalar.TEXT, Check(_no_nul, "text")]
NonEmpty = Annotated[Text, Check(_nonempty, "text that is not empty")]
JobName = Annotated[str, Scalar.TEXT, Check(_dns_1035, "DNS-1035 label")]
DnsLabel = Annotated[str, Scalar.TEXT, Check(_dns_label, "DNS label")]
ObjectName = Annotated[str, Scalar.TEXT, Check(_object_name, "Kubernetes object name")]
NamespacedName = Annotated[str, Scalar.TEXT, Check(_namespaced_name, "NAMESPACE/NAME")]
LabelKey = Annotated[str, Scalar.TEXT, Check(_label_key, "label key")]
LabelValue = Annotated[str, Scalar.TEXT, Check(_label_value, "label value")]
RequiredLabelValue = Annotated[str, Scalar.TEXT, Check(_required_label_value, "label value that is not empty")]
Domain = Annotated[str, Scalar.TEXT, Check(_domain, "DNS domain")]
DataKey = Annotated[str, Scalar.TEXT, Check(_data_key, "key of a Secret or ConfigMap")]
PodField = Annotated[str, Scalar.TEXT, Check(_pod_field, "field of a pod")]
Server = Annotated[str, Scalar.TEXT, Check(_server, "host name or address")]
ServerUrl = Annotated[str, Scalar.TEXT, Check(_server_url, "URL of an API server")]
Uid = Annotated[str, Scalar.TEXT, Check(_uid, "uid")]
Date = Annotated[str, Scalar.TEXT, Check(_date, "date")]
TimeZone = Annotated[str, Scalar.TEXT, Check(_time_zone, "time zone")]
Cron = Annotated[str, Scalar.TEXT, Check(_cron, "cron expression")]
EnvName = Annotated[str, Scalar.TEXT, Check(_env_name, "environment variable name")]
PortName = Annotated[str, Scalar.TEXT, Check(_port_name, "port name")]
Capability = Annotated[str, Scalar.TEXT, Check(_capability, "text that names a capability")]
GpuProfile = Annotated[str, Scalar.TEXT, Check(_gpu_profile, "MIG profile")]
Image = Annotated[str, Scalar.TEXT, Check(_image, "container image")]
Boolean = Annotated[bool, Scalar.BOOLEAN]
Count = Annotated[int, Scalar.INTEGER, Field(ge=0, le=2**31 - 1)]
PositiveCount = Annotated[int, Scalar.INTEGER, Field(ge=1, le=2**31 - 1)]
Nodes = Annotated[PositiveCount, Field(le=10000)]
Port = Annotated[int, Scalar.INTEGER, Field(ge=1, le=65535)]
NodePort = Annotated[int, Scalar.INTEGER, Field(ge=1, le=65535)]
Percent = Annotated[int, Scalar.INTEGER, Field(ge=1, le=100)]
Integer = Annotated[int, Scalar.INTEGER, Field(ge=-(2**31), le=2**31 - 1)]
Number = Annotated[float, Scalar.NUMBER, Field(ge=0)]
Free = Annotated[dict[str, Any], Scalar.FREE]
