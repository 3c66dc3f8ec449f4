"""The ``environment:`` block: image, command, variables."""

import re

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from gpuctl.language.exclusion_checks import refuse_exclusions
from gpuctl.language.exclusions import Exclusion, one_of
from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import Block, DataKey, EnvName, Image, ObjectName, PodField, Text, empty_list
from gpuctl.language.names import is_data_key, is_dns_subdomain
from gpuctl.language.path_fields import AbsolutePath
from gpuctl.language.sentences import Template, say

_SOURCES = ("value", "secret", "configMap", "fieldRef")
_WITHOUT_KEY = Template("{variable} has a {first}, which has no key"), Template("remove `key`")


def _one_source(*sources: str) -> tuple[Exclusion, ...]:
    """Return the exclusions of a variable with these sources."""
    return (
        *one_of(*sources, message=Template("{variable} has both a {first} and a {second}")),
        *(Exclusion(source, ("key",), *_WITHOUT_KEY) for source in sources if source in ("value", "fieldRef")),
    )


class _NamedValue(Block):
    """The fields of a variable in a list that are no source; in the reference they are first."""

    name: EnvName = Field(description="Name of the variable.", examples=["HF_HOME"])
    value: Text | None = Field(
        None,
        description="Its value, taken exactly as written (`1`, `yes` and `2e-5` stay text).",
        examples=["/models/cache"],
    )


class VariableSource(Block):
    """The source of a variable's value: a key of a Secret or ConfigMap, or a field of the pod."""

    exclusions = _one_source(*_SOURCES[1:])

    secret: ObjectName | None = Field(
        None, description="Name of a Secret in the job's namespace to read the value from.", examples=["hf-token"]
    )
    configMap: ObjectName | None = Field(  # noqa: N815
        None, description="Name of a ConfigMap in the job's namespace to read the value from.", examples=["settings"]
    )
    key: DataKey | None = Field(None, description="Key within the Secret or ConfigMap.", examples=["token"])
    fieldRef: PodField | None = Field(  # noqa: N815
        None,
        description="Field of the pod to read the value from, by its path in Kubernetes: `metadata.name`, "
        "`metadata.namespace`, `metadata.uid`, `metadata.labels['KEY']`, `metadata.annotations['KEY']`, "
        "`spec.nodeName`, `spec.serviceAccountName`, `status.podIP`, `status.podIPs`, `status.hostIP` or "
        "`status.hostIPs`.",
        examples=["status.podIP"],
    )

    @field_validator("secret", "configMap", mode="before")
    @classmethod
    def _name_alone(cls, value: str | None, info: ValidationInfo) -> str | None:
        both = re.fullmatch("([^/:]+)[/:]([^/:]+)", value or "")
        if both is not None and is_dns_subdomain(both[1]) and is_data_key(both[2]):
            message = say("`{value}` is a name with a key, which is a field of its own", value=value)
            hint = say("write `{line}` and `key: {key}`", line=f"{info.field_name}: {both[1]}", key=both[2])
            raise field_error("GPU207", message, hint)
        return value

    @model_validator(mode="after")
    def _has_source(self) -> "VariableSource":
        refuse_exclusions(self, variable=self._called)
        source = next((name for name in _SOURCES if getattr(self, name, None) is not None), None)
        if source is None:
            if self.key is not None:
                message = say("{variable} has a key but no secret and no configMap", variable=self._called)
                raise field_error("GPU201", message, say("add `secret: NAME` or `configMap: NAME`"), ("key",))
            raise self._no_value()
        if source in ("secret", "configMap") and self.key is None:
            message = say("{variable} reads a {source} without a `key`", variable=self._called, source=source)
            hint = say("add `key:`, the {kind}'s key", kind=f"{source[0].upper()}{source[1:]}")
            raise field_error("GPU201", message, hint, (source,))
        return self

    @property
    def _called(self) -> str:
        return say("the variable")

    def _no_value(self) -> PydanticCustomError:
        hint = say("add `secret: NAME` or `configMap: NAME` with `key: KEY`, or `fieldRef: FIELD`")
        return field_error("GPU201", say("the variable has no source"), hint)


class EnvVar(VariableSource, _NamedValue):
    """One environment variable: a value, a key of a Secret or ConfigMap, or a field of the pod."""

    exclusions = _one_source(*_SOURCES)

    @property
    def _called(self) -> str:
        return f"`{self.name}`"

    def _no_value(self) -> PydanticCustomError:
        hint = say('add `value:` (`value: ""` for an empty one)')
        return field_error("GPU201", say("`{name}` has no value", name=self.name), hint, ("name",))


class EnvSource(Block):
    """A Secret or ConfigMap whose keys all become variables."""

    exclusions = one_of(
        "secret",
        "configMap",
        message=Template("an entry has both a secret and a configMap"),
        hint=Template("write two"),
    )

    secret: ObjectName | None = Field(
        None, description="Name of a Secret in the job's namespace.", examples=["tracking-login"]
    )
    configMap: ObjectName | None = Field(  # noqa: N815
        None, description="Name of a ConfigMap in the job's namespace.", examples=["team-settings"]
    )
    prefix: EnvName | None = Field(
        None, description="Text in front of each key. Default: none.", examples=["TRACKING_"]
    )

    @model_validator(mode="after")
    def _has_source(self) -> "EnvSource":
        refuse_exclusions(self)
        if self.secret is None and self.configMap is None:
            hint = say("add `secret: NAME` or `configMap: NAME`")
            raise field_error("GPU201", say("an entry names neither a secret nor a configMap"), hint)
        return self


Variables = list[EnvVar] | dict[EnvName, Text | VariableSource]


def as_entries(env: Variables) -> list[EnvVar]:
    """Return variables in the order written, as entries, for both forms."""
    if isinstance(env, list):
        return env
    return [
        EnvVar(name=name, **dict(value)) if isinstance(value, VariableSource) else EnvVar(name=name, value=value)
        for name, value in env.items()
    ]


def refuse_repeated_names(env: Variables) -> None:
    """Raise the error of a variable that is set twice."""
    seen: set[str] = set()
    for index, variable in enumerate(env if isinstance(env, list) else ()):
        if variable.name in seen:
            message = say("the variable `{name}` is set twice", name=variable.name)
            raise field_error("GPU218", message, say("remove one"), ("env", index, "name"))
        seen.add(variable.name)


class Environment(Block):
    """Image, command and variables of the container."""

    image: Image = Field(description="Container image.", examples=["registry.example.com/llm/train:v1.2"])
    imagePullSecret: ObjectName | list[ObjectName] | None = Field(  # noqa: N815
        None,
        description="Secret, or list of Secrets, with the registry's credentials.",
        examples=["registry-login"],
    )
    command: list[Text] = Field(
        default_factory=empty_list,
        description="The program and its arguments, one list item each; replaces the image's entrypoint. Taken "
        "exactly as "
        "written: `2e-5` arrives as `2e-5`.",
        examples=[["torchrun", "train.py"]],
    )
    args: list[Text] = Field(
        default_factory=empty_list,
        description="Arguments after the command, or after the image's entrypoint.",
        examples=[["--lr", "2e-5"]],
    )
    env: list[EnvVar] | dict[EnvName, Text | VariableSource] = Field(
        default_factory=empty_list,
        description="Environment variables: a mapping `NAME: value`, or a list of `{name, value}`. In place of the "
        "value, `{secret, key}` and `{configMap, key}` read a key, and `{fieldRef}` reads a field of the pod.",
        examples=[[{"name": "NCCL_DEBUG", "value": "INFO"}]],
    )
    envFrom: list[EnvSource] = Field(  # noqa: N815
        default_factory=empty_list,
        description="Secrets and ConfigMaps whose keys all become variables. `env` and gpuctl's own variables win over "
        "them, and a later entry over an earlier one.",
        examples=[[{"secret": "tracking-login"}]],
    )
    workdir: AbsolutePath | None = Field(
        None, description="Directory the command starts in. Default: the image's.", examples=["/workspace"]
    )

    @model_validator(mode="after")
    def _unique_secrets(self) -> "Environment":
        seen: set[str] = set()
        for index, name in enumerate(self.pull_secrets):
            if name in seen:
                message = say("the pull secret `{name}` is listed twice", name=name)
                raise field_error("GPU218", message, say("remove one"), ("imagePullSecret", index))
            seen.add(name)
        return self

    @model_validator(mode="after")
    def _unique_names(self) -> "Environment":
        refuse_repeated_names(self.env)
        return self

    @property
    def variables(self) -> list[EnvVar]:
        """The user's variables in the order written, as entries, for both forms of ``env``."""
        return as_entries(self.env)

    @property
    def pull_secrets(self) -> list[str]:
        """Names of the pull secrets, zero or more."""
        if self.imagePullSecret is None:
            return []
        return [self.imagePullSecret] if isinstance(self.imagePullSecret, str) else self.imagePullSecret

    @property
    def argv(self) -> list[str]:
        """Command and arguments as one list, as the container's process is started."""
        return [*self.command, *self.args]
