-- GET /cluster/hourly-stats
SELECT
    id,
    cluster AS cluster_name,
    formatDateTime(time, '%Y-%m-%dT%H:%i:%SZ') AS stat_hour,
    round(cap_gpu_s / nullIf(seconds, 0), 2) AS total_gpu_capacity,
    round(alloc_gpu_s / nullIf(seconds, 0), 2) AS allocated_gpu_count,
    round(100 * alloc_gpu_s / nullIf(cap_gpu_s, 0), 2) AS allocation_rate,
    round(util_gpu_s / nullIf(obs_gpu_s, 0), 2) AS avg_utilization,
    round(util_max, 2) AS max_utilization,
    round(util_min, 2) AS min_utilization,
    round(gpu_usage_percentile(histogram, 50, util_min, util_max), 2) AS p50_utilization,
    round(gpu_usage_percentile(histogram, 95, util_min, util_max), 2) AS p95_utilization,
    buckets AS sample_count,
    round(obs_gpu_s / nullIf(alloc_gpu_s, 0), 4) AS coverage,
    formatDateTime(hours.created_at, '%Y-%m-%dT%H:%i:%SZ') AS created_at,
    formatDateTime(hours.updated_at, '%Y-%m-%dT%H:%i:%SZ') AS updated_at,
    seconds AS known_seconds,
    provisional
FROM gpu_usage.hours
WHERE cluster = {cluster:String} AND level = 'cluster'
    AND time >= {start_time:DateTime('UTC')} AND time < {end_time:DateTime('UTC')}
ORDER BY time
LIMIT {limit:UInt32} OFFSET {offset:UInt32};
