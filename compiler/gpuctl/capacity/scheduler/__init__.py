"""kube-scheduler's rules: filters, scores, volume binding, preemption, and the placements that they allow."""
