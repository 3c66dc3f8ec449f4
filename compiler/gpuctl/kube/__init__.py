"""Access to the API server: configuration, connection, requests, streams and errors."""
