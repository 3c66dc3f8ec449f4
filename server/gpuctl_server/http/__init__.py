"""Requests and answers: bodies, errors, headers, protocols, middleware and the OpenAPI document."""
