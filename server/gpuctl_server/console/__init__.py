"""The web console: static files, and sessions of browsers. Its pages use the public REST API."""
