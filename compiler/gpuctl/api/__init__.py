"""The JSON of ``-o json`` and of the REST API, one model per shape, and the meaning of each error."""
