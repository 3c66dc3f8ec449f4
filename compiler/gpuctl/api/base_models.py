"""The base classes of what the REST API answers and takes: fields are in camelCase in JSON."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class ApiModel(BaseModel):
    """An answer. A client ignores fields that it does not know: the service may be of a later version."""

    model_config = ConfigDict(extra="ignore", alias_generator=to_camel, populate_by_name=True)

    def as_json(self) -> dict[str, Any]:
        """Return the answer as JSON has it, fields in the order of the class. Fields that were not set are left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class SharedModel(ApiModel):
    """An answer that the command line prints, or reads from a service.

    A field that has a default may be missing in the answer of an earlier version; every answer of this version has it.
    """

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    def as_json(self) -> dict[str, Any]:
        """Return the answer as JSON has it, with all fields, in the order of the class."""
        return self.model_dump(mode="json", by_alias=True)


class Body(BaseModel):
    """A request body. Types are strict: a number is not accepted as a string, nor a string as a number."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True)
