"""Python client for gpuctl's REST API: GPU jobs on a Kubernetes cluster."""

from gpuctl_sdk.client import AsyncClient, Client
from gpuctl_sdk.documents import Documents
from gpuctl_sdk.errors import (
    Conflict,
    Forbidden,
    GpuctlError,
    InvalidRequest,
    JobEnded,
    NotFound,
    ServiceError,
    TimedOut,
    TooManyRequests,
    Unauthorized,
    UnexpectedAnswer,
    Unreachable,
)
from gpuctl_sdk.exchange import __version__
from gpuctl_sdk.following import LogLine
from gpuctl_sdk.retrying import NEVER, Retrying

__all__ = [
    "NEVER",
    "AsyncClient",
    "Client",
    "Conflict",
    "Documents",
    "Forbidden",
    "GpuctlError",
    "InvalidRequest",
    "JobEnded",
    "LogLine",
    "NotFound",
    "Retrying",
    "ServiceError",
    "TimedOut",
    "TooManyRequests",
    "Unauthorized",
    "UnexpectedAnswer",
    "Unreachable",
    "__version__",
]
