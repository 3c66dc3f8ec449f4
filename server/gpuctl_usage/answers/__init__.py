"""Queries of usage and their answers as plain values with the names of the REST API."""
