"""The REST service: the use cases of gpuctl over HTTP. Rows, plans and answers equal those of the command line."""
