"""The base class of response values."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Answer(BaseModel):
    """A value of a response. Attributes have Python names; JSON has the names of the API."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)
