"""The client of a service, its saved logins, and rows from the REST API."""
