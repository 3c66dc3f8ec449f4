-- GET /namespaces/hourly-stats; an empty namespace selects all
WITH
    -- For the time without a quota, the average capacity of the cluster in that hour counts.
    if(limited.for_s = 0 AND whole.cap = 0, NULL, limited.gpu_s + whole.cap * (1 - limited.for_s / seconds)) AS there
SELECT
    id,
    cluster AS cluster_name,
    value AS namespace,
    formatDateTime(time, '%Y-%m-%dT%H:%i:%SZ') AS stat_hour,
    round(there / nullIf(seconds, 0), 2) AS total_gpu_capacity,
    round(alloc_gpu_s / nullIf(seconds, 0), 2) AS allocated_gpu_count,
    round(100 * alloc_gpu_s / nullIf(there, 0), 2) AS allocation_rate,
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
LEFT JOIN
(
    SELECT time AS hour, cap_gpu_s AS cap FROM gpu_usage.hours WHERE cluster = {cluster:String} AND level = 'cluster'
) AS whole ON hours.time = whole.hour
LEFT JOIN
(
    SELECT of_hour, of_namespace, sum(both_s) AS for_s, sum(both_s * gpus) AS gpu_s
    FROM
    (
        SELECT
            hour.time AS of_hour,
            quota.namespace AS of_namespace,
            quota.gpus AS gpus,
            toUnixTimestamp64Micro(hour.time) / 1e6 AS begin,
            least(toUnixTimestamp64Micro(quota.end_time) / 1e6, begin + hour.seconds)
            - greatest(toUnixTimestamp64Micro(quota.start_time) / 1e6, begin) AS both_s
        FROM gpu_usage.hours AS hour
        INNER JOIN gpu_usage.quotas AS quota ON hour.cluster = quota.cluster
        WHERE hour.cluster = {cluster:String} AND hour.level = 'cluster'
            AND hour.time >= {start_time:DateTime('UTC')} AND hour.time < {end_time:DateTime('UTC')}
            AND ({namespace:String} = '' OR quota.namespace = {namespace:String})
    )
    WHERE both_s > 0
    GROUP BY of_hour, of_namespace
) AS limited ON hours.time = limited.of_hour AND value = limited.of_namespace
WHERE cluster = {cluster:String} AND level = 'namespace'
    AND time >= {start_time:DateTime('UTC')} AND time < {end_time:DateTime('UTC')}
    AND ({namespace:String} = '' OR value = {namespace:String})
ORDER BY time, value
LIMIT {limit:UInt32} OFFSET {offset:UInt32};
