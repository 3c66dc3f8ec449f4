"""Report actions to a webhook: a POST of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpuctl.kube.api_errors import ClusterError

_WITHIN = 10.0


def post(address: str, value: Mapping[str, Any]) -> None:
    """POST a value. The address may contain user and password. Redirects are not followed.

    :raises ClusterError: the request failed; the message does not contain secret parts of the address.
    """
    import urllib3
    from urllib3.exceptions import HTTPError
    from urllib3.util import make_headers, parse_url

    url = parse_url(address)
    headers = {"Content-Type": "application/json"}
    if url.auth:
        headers |= make_headers(basic_auth=url.auth)
    # For many webhooks the path is the secret.
    name = f"{url.scheme}://{url.netloc}"
    with urllib3.PoolManager(num_pools=1, retries=False) as pool:
        try:
            answer = pool.request(
                "POST",
                f"{name}{url.request_uri}",
                body=json.dumps(value, ensure_ascii=False).encode(),
                headers=headers,
                redirect=False,
                timeout=_WITHIN,
            )
        except HTTPError as error:
            raise ClusterError(f"the webhook at {name} does not answer ({type(error).__name__})") from None
    if not 200 <= answer.status < 300:
        raise ClusterError(f"the webhook at {name} rejected the message: status {answer.status}")
