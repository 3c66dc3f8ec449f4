"""Limits shared fairly among callers, and caches of answers that are expensive."""
