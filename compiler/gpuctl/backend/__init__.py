"""From documents to Kubernetes objects and back: lowering, patches, validation, YAML output, and lifting."""
