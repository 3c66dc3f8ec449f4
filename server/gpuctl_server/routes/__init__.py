"""The routes of the API. Each parses its parameters, calls a use case and returns the answer."""
