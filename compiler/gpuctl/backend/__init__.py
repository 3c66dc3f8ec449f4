"""Documents to Kubernetes objects: one module per kind, and pod, service, storage, distribution; the way back; YAML."""
