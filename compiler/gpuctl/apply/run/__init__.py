"""Carrying a plan out, so that a killed run loses nothing."""
