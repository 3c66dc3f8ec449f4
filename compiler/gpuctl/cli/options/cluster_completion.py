"""Shell completion of names from the cluster: jobs, pools, nodes, quotas, queues and namespaces."""

from __future__ import annotations

from gpuctl.cli.options.local_completion import completion_callback

complete_job = completion_callback("job")
complete_pool = completion_callback("pool")
complete_node = completion_callback("node")
complete_quota = completion_callback("quota")
complete_queue = completion_callback("queue")
complete_namespace = completion_callback("namespace")
