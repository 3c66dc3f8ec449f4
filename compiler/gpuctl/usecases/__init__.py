"""Everything a command does, as functions: what the command line, the library and a server call.

They print nothing and ask nothing: their caller passes :class:`~gpuctl.apply.run.run_options.RunCallbacks`.
What cannot be done is an exception with all that its caller needs.
"""
