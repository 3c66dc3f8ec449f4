"""What bodies and answers consist of, for the OpenAPI document and for whoever generates clients from it."""
