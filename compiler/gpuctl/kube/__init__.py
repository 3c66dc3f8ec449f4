"""The way to the API server: configuration, connection, streams, errors."""
