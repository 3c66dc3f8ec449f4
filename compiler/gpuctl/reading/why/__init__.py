"""Why a job is as it is: one cause, with its numbers, what speaks for it, what was ruled out, and what helps.

``evidence`` gathers what may be read, ``rules`` is the table of causes, ``answer`` ranks what they find.
"""
