"""Base classes of the models of the REST API. JSON fields are in camelCase."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class ApiModel(BaseModel):
    """A response. Clients ignore unknown fields, because the service may be newer."""

    model_config = ConfigDict(extra="ignore", alias_generator=to_camel, populate_by_name=True)

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

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True)
