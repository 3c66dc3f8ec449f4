"""Devices of drivers (DRA), counted as resources of nodes."""
