"""The use cases of gpuctl, as functions for the command line, the library and the service.

They print nothing and ask nothing: the caller passes :class:`~gpuctl.apply.run.run_options.RunCallbacks`. A failure is
an exception with everything the caller needs.
"""
