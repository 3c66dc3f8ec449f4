"""Who asks, and what they may: tokens, and the one function that decides."""
