-- GET /snapshots/latest
SELECT
    id,
    cluster AS cluster_name,
    formatDateTime(time, '%Y-%m-%dT%H:%i:%SZ') AS snapshot_time,
    'cluster' AS dimension_type,
    '' AS dimension_key,
    '' AS dimension_value,
    round(capacity, 2) AS total_gpu_capacity,
    round(allocated, 2) AS allocated_gpu_count,
    CAST(
        (mapSort(mapFromArrays(held.names, held.totals)), map()),
        'Tuple(namespaces Map(String, Tuple(allocated_gpu Float64, utilization Nullable(Float64), workload_count UInt64,
            workloads Array(Tuple(uid String, name String, namespace String, kind String, allocated_gpu Float64,
            utilization Nullable(Float64))))), annotations Map(String, String))'
    ) AS allocation_details,
    formatDateTime(snapshots.created_at, '%Y-%m-%dT%H:%i:%SZ') AS created_at
FROM gpu_usage.snapshots
LEFT JOIN
(
    SELECT time AS moment, groupArray(namespace) AS names, groupArray(total) AS totals
    FROM
    (
        SELECT
            time,
            namespace,
            (
                round(sum(gpus), 2),
                round(sumIf(gpus * utilization, utilization IS NOT NULL) / nullIf(sumIf(gpus, utilization IS NOT NULL), 0), 2),
                count(),
                arrayMap(
                    item -> (item.5, item.4, item.2, item.3, round(-item.1, 2), round(item.6, 2)),
                    arraySort(groupArray((-gpus, namespace, kind, name, uid, utilization)))
                )
            ) AS total
        FROM gpu_usage.snapshot_workloads
        WHERE cluster = {cluster:String}
            AND time = (SELECT max(time) FROM gpu_usage.snapshots WHERE cluster = {cluster:String})
        GROUP BY time, namespace
    )
    GROUP BY time
) AS held ON snapshots.time = held.moment
WHERE cluster = {cluster:String}
ORDER BY time DESC
LIMIT 1;
