-- GET /workloads/hourly-stats; empty parameters are ignored. order_by is time, utilization or allocated_gpu_count.
SELECT
    id,
    cluster AS cluster_name,
    hours.namespace AS namespace,
    name AS workload_name,
    kind AS workload_type,
    formatDateTime(time, '%Y-%m-%dT%H:%i:%SZ') AS stat_hour,
    round(alloc_gpu_s / nullIf(seconds, 0), 2) AS allocated_gpu_count,
    round(alloc_gpu_s / nullIf(pod_s, 0) * pods_max, 2) AS requested_gpu_count,
    round(util_gpu_s / nullIf(obs_gpu_s, 0), 2) AS avg_utilization,
    round(util_max, 2) AS max_utilization,
    round(util_min, 2) AS min_utilization,
    round(gpu_usage_percentile(histogram, 50, util_min, util_max), 2) AS p50_utilization,
    round(gpu_usage_percentile(histogram, 95, util_min, util_max), 2) AS p95_utilization,
    round(memory_used_gpu_s / nullIf(memory_obs_gpu_s, 0), 2) AS avg_gpu_memory_used,
    round(memory_max, 2) AS max_gpu_memory_used,
    round(memory_total_gpu_s / nullIf(memory_obs_gpu_s, 0), 2) AS avg_gpu_memory_total,
    round(pod_s / nullIf(seconds, 0), 2) AS avg_replica_count,
    pods_max AS max_replica_count,
    pods_min AS min_replica_count,
    status AS workload_status,
    samples AS sample_count,
    uid AS owner_uid,
    name AS owner_name,
    labels,
    annotations,
    round(obs_gpu_s / nullIf(alloc_gpu_s, 0), 4) AS coverage,
    formatDateTime(hours.created_at, '%Y-%m-%dT%H:%i:%SZ') AS created_at,
    formatDateTime(hours.updated_at, '%Y-%m-%dT%H:%i:%SZ') AS updated_at,
    seconds AS known_seconds,
    provisional
FROM gpu_usage.hours
WHERE cluster = {cluster:String} AND level = 'workload'
    AND time >= {start_time:DateTime('UTC')} AND time < {end_time:DateTime('UTC')}
    AND ({namespace:String} = '' OR hours.namespace = {namespace:String})
    AND ({workload_name:String} = '' OR name = {workload_name:String})
    AND ({workload_type:String} = '' OR kind = {workload_type:String})
ORDER BY
    -- Unknown values come last in both directions.
    multiIf(
        {order_by:String} = 'utilization', util_gpu_s / nullIf(obs_gpu_s, 0),
        {order_by:String} = 'allocated_gpu_count', alloc_gpu_s / nullIf(seconds, 0),
        toFloat64(time)
    ) * if({order_direction:String} = 'desc', -1, 1) ASC NULLS LAST,
    time, key, value, id
LIMIT {limit:UInt32} OFFSET {offset:UInt32};
