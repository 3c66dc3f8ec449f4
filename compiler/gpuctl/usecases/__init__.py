"""Everything a command does, as functions: what the command line, the library and a server call.

Nothing is printed and nobody is asked from here: a :class:`~gpuctl.usecases.conversation.Conversation` is passed in.
What cannot be done is an exception with all that its caller needs.
"""
