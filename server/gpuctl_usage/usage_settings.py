"""How the usage of GPUs is kept: settings in the service's own file and environment (``GPUCTL_SERVER_...``)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, YamlConfigSettingsSource
from yaml import YAMLError

FILE = "GPUCTL_SERVER_CONFIG"
Address = Annotated[str, Field(pattern=r"^https?://[^\s/?#]+[^\s?#]*$")]

UsageCluster = Annotated[
    Annotated[str, Field(max_length=253, pattern=r"^\S+$")] | None,
    Field(description="What the cluster is called in answers about usage. Default: the kubeconfig's context."),
]
UsageKeys = tuple[Annotated[str, Field(min_length=1, max_length=317)], ...]
UsageLabels = Annotated[UsageKeys, Field(description="Keys of labels by which usage is told.")]
UsageAnnotations = Annotated[UsageKeys, Field(description="Keys of annotations by which usage is told.")]
UsageInterval = Annotated[
    float, Field(ge=1, le=300, description="How often Prometheus asks the exporters of GPUs, in seconds.")
]
KEYS = ("team", "project", "app", "env", "cost-center")


class UnusableSettings(ValueError):
    """Settings that are none; ``str()`` says which, for people."""


class UsageSettings(BaseSettings):
    """What the collector needs; what else the service's file has is not its business."""

    model_config = SettingsConfigDict(env_prefix="GPUCTL_SERVER_", extra="ignore")

    kubeconfig: str | None = None
    context: str | None = None
    platform: str | None = None
    prometheus: Address | None = None
    prometheus_token: Path | None = None
    usage_database: str | None = None
    usage_cluster: UsageCluster = None
    usage_labels: UsageLabels = KEYS
    usage_annotations: UsageAnnotations = KEYS
    usage_scrape_interval: UsageInterval = 15.0

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> UsageSettings:
        """The settings, with what was given before the environment and the file.

        :raises UnusableSettings: they have errors.
        """
        try:
            return cls(**given)
        except ValidationError as error:
            wrong = (f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
            raise UnusableSettings(f"the settings have errors: {'; '.join(wrong)}") from None
        except (OSError, YAMLError) as error:
            raise UnusableSettings(f"the file of settings cannot be read: {error}") from None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags before the environment before the file."""
        path = os.environ.get(FILE)
        return (init_settings, env_settings, *((YamlConfigSettingsSource(settings_cls, path),) if path else ()))
