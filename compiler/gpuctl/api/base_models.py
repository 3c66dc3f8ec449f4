"""Base classes and types of fields of the models of the REST API. JSON fields are in camelCase."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fractions import Fraction
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic.alias_generators import to_camel

from gpuctl.api.json_values import number
from gpuctl.language.display_text import shorten
from gpuctl.language.names import is_dns_label
from gpuctl.language.sentences import say

Amount = Annotated[
    Fraction,
    PlainValidator(lambda value: value if isinstance(value, Fraction) else Fraction(str(value))),
    PlainSerializer(number, return_type=int | float),
    # FastAPI asks for the schema of a request too, which older releases of pydantic cannot make of a function.
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "number"}]}),
]
"""An amount: exact in Python, a number in JSON."""


def _legal_namespace(text: str) -> str:
    if text and not is_dns_label(text):
        raise ValueError(say("`{namespace}` is not a legal namespace name", namespace=shorten(text)))
    return text


LEGAL_NAMESPACE = AfterValidator(_legal_namespace)
"""The value is a legal name of a namespace, or empty."""
Model = TypeVar("Model", bound="ApiModel")


class ApiModel(BaseModel):
    """A response. Clients ignore unknown fields, because the service may be newer.

    ``model_validate`` takes JSON, or an object whose attributes have the names of the fields.
    """

    model_config = ConfigDict(
        extra="ignore", alias_generator=to_camel, populate_by_name=True, from_attributes=True, defer_build=True
    )

    @classmethod
    def taken_from(cls: type[Model], source: object, *, omitted: Collection[str] = (), **more: Any) -> Model:
        """Return the model of a source: ``more``, and the source's attributes that have the names of other fields.

        :param omitted: fields that the response leaves out.
        :raises AttributeError: another field is neither in ``more`` nor an attribute of the source.
        """
        names = cls.model_fields.keys() - more.keys() - set(omitted)
        return cls(**{name: getattr(source, name) for name in names}, **more)

    @classmethod
    def listed(cls, items: Iterable[object]) -> dict[str, Any]:
        """Return the JSON list of items that :meth:`model_validate` takes: ``items``, and their number as ``total``."""
        found = [cls.model_validate(item).as_json() for item in items]
        return {"items": found, "total": len(found)}

    def as_json(self) -> dict[str, Any]:
        """Return the response as JSON, in the order of the fields. Fields that were not set are omitted."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    @classmethod
    def columns(cls) -> list[str]:
        """Return the names of the JSON fields, in their order."""
        return [field.alias or name for name, field in cls.model_fields.items()]


class SharedModel(ApiModel):
    """A response that the command line prints, or reads from a service.

    A field with a default may be missing in a response of an earlier version; responses of this version have it.
    """

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    def as_json(self) -> dict[str, Any]:
        """Return the response as JSON with all fields, in their order."""
        return self.model_dump(mode="json", by_alias=True)


class Body(BaseModel):
    """A request body. Types are strict: a number is not accepted as a string, nor a string as a number."""

    model_config = ConfigDict(
        extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True, defer_build=True
    )


class DryRunBody(Body):
    """The body of a change that may be a dry run."""

    dry_run: bool = Field(False, description="Check only; nothing is written.")
