-- Loads the months of a directory written by `gpuctl usage export --parquet`, and replaces existing rows of these
-- months. The server reads files below its user_files_path:
--   clickhouse-client --param_directory months --multiquery < load.sql

DELETE FROM gpu_usage.hours
WHERE (cluster, toYYYYMM(time)) IN (
    SELECT DISTINCT cluster, toYYYYMM(time) FROM file(concat({directory:String}, '/hours/*.parquet'), 'Parquet')
);
INSERT INTO gpu_usage.hours (cluster, time, seconds, level, key, value, namespace, kind, name, uid, labels, annotations, status, alloc_gpu_s, running_gpu_s, cap_gpu_s, free_gpu_s, unusable_gpu_s, unsized_gpu_s, obs_gpu_s, util_gpu_s, by_process_gpu_s, beyond_gpu_s, util_min, util_max, histogram, memory_obs_gpu_s, memory_used_gpu_s, memory_total_gpu_s, memory_max, pod_s, pods_min, pods_max, workloads, samples, buckets, provisional, id, created_at, updated_at)
SELECT cluster, time, seconds, level, key, value, namespace, kind, name, uid, labels, annotations, status, alloc_gpu_s, running_gpu_s, cap_gpu_s, free_gpu_s, unusable_gpu_s, unsized_gpu_s, obs_gpu_s, util_gpu_s, by_process_gpu_s, beyond_gpu_s, util_min, util_max, histogram, memory_obs_gpu_s, memory_used_gpu_s, memory_total_gpu_s, memory_max, pod_s, pods_min, pods_max, workloads, samples, buckets, provisional, id, created_at, updated_at
FROM file(concat({directory:String}, '/hours/*.parquet'), 'Parquet');

DELETE FROM gpu_usage.holdings
WHERE (cluster, toYYYYMM(start_time)) IN (
    SELECT DISTINCT cluster, toYYYYMM(start_time) FROM file(concat({directory:String}, '/holdings/*.parquet'), 'Parquet')
);
INSERT INTO gpu_usage.holdings (cluster, namespace, pod, pod_uid, kind, name, uid, node, model, gpus, labels, annotations, start_time, end_time, held_since, running_since, held_until, ending)
SELECT cluster, namespace, pod, pod_uid, kind, name, uid, node, model, gpus, labels, annotations, start_time, end_time, held_since, running_since, held_until, ending
FROM file(concat({directory:String}, '/holdings/*.parquet'), 'Parquet');

DELETE FROM gpu_usage.capacities
WHERE (cluster, toYYYYMM(start_time)) IN (
    SELECT DISTINCT cluster, toYYYYMM(start_time) FROM file(concat({directory:String}, '/capacities/*.parquet'), 'Parquet')
);
INSERT INTO gpu_usage.capacities (cluster, node, model, state, gpus, start_time, end_time)
SELECT cluster, node, model, state, gpus, start_time, end_time
FROM file(concat({directory:String}, '/capacities/*.parquet'), 'Parquet');

DELETE FROM gpu_usage.quotas
WHERE (cluster, toYYYYMM(start_time)) IN (
    SELECT DISTINCT cluster, toYYYYMM(start_time) FROM file(concat({directory:String}, '/quotas/*.parquet'), 'Parquet')
);
INSERT INTO gpu_usage.quotas (cluster, namespace, gpus, start_time, end_time)
SELECT cluster, namespace, gpus, start_time, end_time
FROM file(concat({directory:String}, '/quotas/*.parquet'), 'Parquet');

DELETE FROM gpu_usage.snapshots
WHERE (cluster, toYYYYMM(time)) IN (
    SELECT DISTINCT cluster, toYYYYMM(time) FROM file(concat({directory:String}, '/snapshots/*.parquet'), 'Parquet')
);
INSERT INTO gpu_usage.snapshots (cluster, time, capacity, allocated, id, has_details, created_at)
SELECT cluster, time, capacity, allocated, id, has_details, created_at
FROM file(concat({directory:String}, '/snapshots/*.parquet'), 'Parquet');

DELETE FROM gpu_usage.snapshot_workloads
WHERE (cluster, toYYYYMM(time)) IN (
    SELECT DISTINCT cluster, toYYYYMM(time) FROM file(concat({directory:String}, '/snapshot_workloads/*.parquet'), 'Parquet')
);
INSERT INTO gpu_usage.snapshot_workloads (cluster, time, namespace, kind, name, uid, gpus, utilization)
SELECT cluster, time, namespace, kind, name, uid, gpus, utilization
FROM file(concat({directory:String}, '/snapshot_workloads/*.parquet'), 'Parquet');
