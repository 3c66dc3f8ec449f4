"""Why a connection failed: the innermost reason of an exception, in words."""

from __future__ import annotations

import re
import ssl


def reason_text(last: BaseException) -> str:
    """One exception's own words, without those of the libraries it has come through."""
    if isinstance(last, ssl.SSLCertVerificationError):
        return last.verify_message.rstrip(".")
    if isinstance(last, OSError) and last.strerror:
        # OpenSSL's have their code before them and a line of C behind.
        return re.sub(r"^\[.*?\] | \(_\w+\.c:\d+\)$", "", last.strerror).lower() + file_suffix(last)
    # Python's own have the line of its C source: `_ssl.c:989: The handshake operation timed out`.
    text = re.sub(r"^_\w+\.c:\d+: ", "", " ".join(str(last).split())) or type(last).__name__
    if ">: " in text:
        text = text.split(">: ", 1)[1]
    return text[:300]


def file_suffix(error: OSError) -> str:
    """The file that an error is about, to be put behind its words."""
    return f": {error.filename}" if error.filename else ""


def innermost_reason(error: BaseException) -> str:
    """The innermost reason of an exception, without addresses of objects in memory."""
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in seen:
        seen.append(current)
        current = current.__cause__ or current.__context__
    return reason_text(seen[-1])
