"""`gpuctl why`: the cause that keeps a job from running, with numbers, evidence, what was ruled out, and a fix.

``evidence`` reads the cluster, ``rules`` is the table of causes, ``explanation`` ranks what the rules find.
"""
