"""Random ends of names, as the API server and controllers generate them."""

from __future__ import annotations

import secrets

# Without vowels, so that no words appear. Source: apimachinery/pkg/util/rand.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def random_suffix(length: int = 5) -> str:
    """Return letters and digits for the end of a name."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))
