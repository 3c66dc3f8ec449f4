-- GET /namespaces/hourly-stats; an empty namespace is all of them
SELECT
    id,
    cluster AS cluster_name,
    value AS namespace,
    formatDateTime(time, '%Y-%m-%dT%H:%i:%SZ') AS stat_hour,
    round(if(cap_gpu_s > 0, cap_gpu_s, whole.cap) / nullIf(seconds, 0), 2) AS total_gpu_capacity,
    round(alloc_gpu_s / nullIf(seconds, 0), 2) AS allocated_gpu_count,
    round(util_gpu_s / nullIf(obs_gpu_s, 0), 2) AS avg_utilization,
    round(util_max, 2) AS max_utilization,
    round(util_min, 2) AS min_utilization,
    workloads AS active_workload_count,
    round(obs_gpu_s / nullIf(alloc_gpu_s, 0), 4) AS coverage,
    formatDateTime(hours.created_at, '%Y-%m-%dT%H:%i:%SZ') AS created_at,
    formatDateTime(hours.updated_at, '%Y-%m-%dT%H:%i:%SZ') AS updated_at
FROM gpu_usage.hours
-- Without a capacity of its own a namespace has that of the cluster.
LEFT JOIN
(
    SELECT time AS hour, cap_gpu_s AS cap FROM gpu_usage.hours WHERE cluster = {cluster:String} AND level = 'cluster'
) AS whole ON hours.time = whole.hour
WHERE cluster = {cluster:String} AND level = 'namespace'
    AND time >= {start_time:DateTime('UTC')} AND time < {end_time:DateTime('UTC')}
    AND ({namespace:String} = '' OR value = {namespace:String})
ORDER BY time, value
LIMIT {limit:UInt32} OFFSET {offset:UInt32};
