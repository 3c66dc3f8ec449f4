"""Diagnostics in the formats that people and CI systems read: one module a format."""
