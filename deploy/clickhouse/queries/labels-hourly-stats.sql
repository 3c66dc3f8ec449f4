-- GET /labels/hourly-stats; an empty dimension_value selects all
SELECT
    id,
    cluster AS cluster_name,
    level AS dimension_type,
    key AS dimension_key,
    value AS dimension_value,
    formatDateTime(time, '%Y-%m-%dT%H:%i:%SZ') AS stat_hour,
    round(alloc_gpu_s / nullIf(seconds, 0), 2) AS allocated_gpu_count,
    round(util_gpu_s / nullIf(obs_gpu_s, 0), 2) AS avg_utilization,
    round(util_max, 2) AS max_utilization,
    round(util_min, 2) AS min_utilization,
    workloads AS active_workload_count,
    round(obs_gpu_s / nullIf(alloc_gpu_s, 0), 4) AS coverage,
    formatDateTime(hours.created_at, '%Y-%m-%dT%H:%i:%SZ') AS created_at,
    formatDateTime(hours.updated_at, '%Y-%m-%dT%H:%i:%SZ') AS updated_at,
    seconds AS known_seconds,
    provisional
FROM gpu_usage.hours
WHERE cluster = {cluster:String} AND level = {dimension_type:String} AND key = {dimension_key:String}
    AND time >= {start_time:DateTime('UTC')} AND time < {end_time:DateTime('UTC')}
    AND ({dimension_value:String} = '' OR value = {dimension_value:String})
ORDER BY time, value
LIMIT {limit:UInt32} OFFSET {offset:UInt32};
