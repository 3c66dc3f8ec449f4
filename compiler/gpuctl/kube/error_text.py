"""The reason of an exception, for messages."""

from __future__ import annotations

import re
import ssl


def reason_text(last: BaseException) -> str:
    """Return the text of one exception without what libraries add to it."""
    if isinstance(last, ssl.SSLCertVerificationError):
        return last.verify_message.rstrip(".")
    if isinstance(last, OSError) and last.strerror:
        # OpenSSL's messages begin with a code and end with a line of C source.
        return re.sub(r"^\[.*?\] | \(_\w+\.c:\d+\)$", "", last.strerror).lower() + file_suffix(last)
    # Python's own begin with a line of C source: `_ssl.c:989: The handshake operation timed out`.
    text = re.sub(r"^_\w+\.c:\d+: ", "", " ".join(str(last).split())) or type(last).__name__
    if ">: " in text:
        text = text.split(">: ", 1)[1]
    return text[:300]


def file_suffix(error: OSError) -> str:
    """Return ``: FILE`` for an error about a file, else ""."""
    return f": {error.filename}" if error.filename else ""


def innermost_reason(error: BaseException) -> str:
    """Return the text of the innermost cause of an exception, without addresses of objects in memory."""
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in seen:
        seen.append(current)
        current = current.__cause__ or current.__context__
    return reason_text(seen[-1])
