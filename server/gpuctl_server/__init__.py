"""The service: what gpuctl knows and does, over HTTP. Rows, plans and answers are those of the command line."""
