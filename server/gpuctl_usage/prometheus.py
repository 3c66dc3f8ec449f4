"""Prometheus client with a timeout for each query and a size limit for each response."""

from __future__ import annotations

import json
import math
import time
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import urllib3
from urllib3.util import Timeout, make_headers, parse_url

from gpuctl.language.display_text import visible
from gpuctl_usage.ttl_cache import TtlCache

LARGEST = 8 * 1024 * 1024
"""Default maximum size of a response, bytes."""
_CONNECT_TIMEOUT = 2.0
_RESULT_TTL = 15.0
"""Seconds for which the result of an instant query is cached."""
_RETRY_AFTER = 5.0
"""Seconds without instant queries after Prometheus failed to respond."""


class PrometheusProblem(Exception):
    """A query failed; ``str()`` is the message for the user."""


class AnswerTooLarge(PrometheusProblem):
    """The response is larger than the limit: query a shorter range."""


class Sample(NamedTuple):
    """A value at a time (seconds since 1970)."""

    time: float
    value: float


class Series(NamedTuple):
    """A label set and its values in order of time, without NaN and Inf."""

    labels: Mapping[str, str]
    samples: list[Sample]


class RawSeries(NamedTuple):
    """A label set with many values as two arrays (type code ``d``) of equal length; may contain NaN and Inf."""

    labels: Mapping[str, str]
    times: array[float]
    values: array[float]


class Prometheus:
    """A thread-safe client of one Prometheus.

    :param address: URL, optionally with user and password.
    :param token: file with a bearer token.
    :param largest: maximum size of a response, bytes.
    """

    def __init__(self, address: str, token: Path | None = None, *, largest: int = LARGEST) -> None:
        url = parse_url(address)
        self.name = f"{url.scheme}://{url.netloc}{url.path or ''}"
        self._base = self.name.rstrip("/")
        self._headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if url.auth:
            self._headers |= make_headers(basic_auth=url.auth)
        self._token = token
        self._largest = largest
        self._pool = urllib3.PoolManager(num_pools=1, maxsize=8, retries=False)
        self._recent: TtlCache[str, list[Series]] = TtlCache(_RESULT_TTL)
        self._away_until = 0.0

    def query_range(self, query: str, start: int, end: int, step: int, timeout: float) -> list[Series]:
        """Return the series of a range query: from ``start`` to ``end`` (seconds since 1970), one value every ``step``
        seconds.

        :param timeout: seconds.
        :raises PrometheusProblem: the query failed.
        """
        fields = {"query": query, "start": str(start), "end": str(end), "step": str(step)}
        return self._ask("query_range", fields, timeout)

    def raw_samples(self, selector: str, start: float, end: float, timeout: float) -> list[RawSeries]:
        """Return the stored samples of a selector in (start, end], each with its own time; both bounds in whole
        milliseconds.

        :raises AnswerTooLarge: the response is larger than the limit.
        :raises PrometheusProblem: the query failed.
        """
        # Prometheus 2 includes both ends of a range selector, Prometheus 3 only the later one.
        length = round((end - start) * 1000)
        fields = {"query": f"{selector}[{length}ms]", "time": f"{end:.3f}"}
        found: list[RawSeries] = []
        for item in self._result("query", fields, timeout):
            pairs = [(at, text) for at, text in item["values"] if at > start]
            if pairs:
                times, values = zip(*pairs, strict=True)
                found.append(RawSeries(dict(item["metric"]), array("d", times), array("d", map(float, values))))
        return found

    def query_at(self, query: str, when: float, timeout: float) -> list[Series]:
        """Return the series of an instant query at a time, each with one value.

        :raises PrometheusProblem: the query failed.
        """
        return self._ask("query", {"query": query, "time": f"{when:.3f}"}, timeout)

    def query(self, query: str, timeout: float) -> list[Series]:
        """Return the series of an instant query now, or a cached result that is some seconds old; each has one value.

        :raises PrometheusProblem: the query failed; raised at once for a few seconds after a slow failure.
        """

        def ask() -> list[Series]:
            if time.monotonic() < self._away_until:
                raise PrometheusProblem(f"{self.name} did not respond")
            begun = time.monotonic()
            try:
                return self._ask("query", {"query": query}, timeout)
            except PrometheusProblem:
                if time.monotonic() > begun + timeout / 2:
                    self._away_until = time.monotonic() + _RETRY_AFTER
                raise

        return self._recent.get(query, ask)

    def _ask(self, path: str, fields: Mapping[str, str], timeout: float) -> list[Series]:
        return [_series(item) for item in self._result(path, fields, timeout)]

    def _result(self, path: str, fields: Mapping[str, str], timeout: float) -> list[dict[str, Any]]:
        value = self._answer(path, fields, time.monotonic() + timeout)
        data = value.get("data")
        found = data.get("result") if isinstance(data, dict) else None
        if not isinstance(found, list) or not all(map(_is_series, found)):
            raise PrometheusProblem(f"{self.name} returned an invalid response")
        return found

    def _answer(self, path: str, fields: Mapping[str, str], deadline: float) -> dict[str, Any]:
        remaining = max(0.1, deadline - time.monotonic())
        try:
            response = self._pool.request(
                "POST",
                f"{self._base}/api/v1/{path}",
                fields=fields,
                encode_multipart=False,
                headers=self._authorized(),
                # A redirect could send the credentials to any host.
                redirect=False,
                timeout=Timeout(connect=min(_CONNECT_TIMEOUT, remaining), read=remaining),
                preload_content=False,
            )
            try:
                body = self._body(response, deadline)
            finally:
                response.close()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            reason = type(error).__name__ if not str(error) else str(error).rpartition(": ")[2]
            raise PrometheusProblem(f"{self.name} cannot be reached: {visible(reason)[:200]}") from None
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            value = None
        if response.status == 200 and isinstance(value, dict) and value.get("status") == "success":
            return value
        reported = value.get("error") if isinstance(value, dict) else None
        text = f": {visible(str(reported))[:300]}" if reported else ""
        raise PrometheusProblem(f"{self.name} returned status {response.status}{text}")

    def _body(self, response: urllib3.BaseHTTPResponse, deadline: float) -> bytes:
        body = bytearray()
        while data := response.read(64 * 1024, decode_content=False):
            body += data
            if len(body) > self._largest:
                raise AnswerTooLarge(f"{self.name} returned more than {self._largest // 2**20} MiB")
            if time.monotonic() > deadline:
                raise PrometheusProblem(f"{self.name} did not respond in time")
        return bytes(body)

    def _authorized(self) -> dict[str, str]:
        if self._token is None:
            return self._headers
        try:
            token = self._token.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise PrometheusProblem(f"the token for {self.name} cannot be read: {error}") from None
        return {**self._headers, "Authorization": f"Bearer {token}"}


def _is_series(item: Any) -> bool:
    if not isinstance(item, dict) or not isinstance(item.get("metric"), dict):
        return False
    pairs = item["values"] if "values" in item else [item.get("value")]
    if not isinstance(pairs, list):
        return False
    try:
        for at, text in pairs:
            float(at), float(text)
    except (TypeError, ValueError):
        return False
    return True


def _series(item: Mapping[str, Any]) -> Series:
    values = item["values"] if "values" in item else [item["value"]]
    samples = [Sample(float(at), float(text)) for at, text in values]
    return Series(dict(item["metric"]), [sample for sample in samples if math.isfinite(sample.value)])
