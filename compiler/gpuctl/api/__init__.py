"""Models of ``-o json`` and of the REST API, and the meaning of each error."""
