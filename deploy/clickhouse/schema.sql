-- Usage of many clusters and years in ClickHouse 24.8 or newer: the tables of `gpuctl usage export --parquet`, column
-- by column, as described in docs/service.md. Times are UTC.
CREATE DATABASE IF NOT EXISTS gpu_usage;

CREATE TABLE IF NOT EXISTS gpu_usage.hours
(
    cluster LowCardinality(String),
    time DateTime64(6, 'UTC') CODEC(DoubleDelta, ZSTD),
    seconds Float64,
    level LowCardinality(String),
    key String,
    value String,
    namespace LowCardinality(String),
    kind LowCardinality(String),
    name String,
    uid String,
    labels Map(String, String),
    annotations Map(String, String),
    status LowCardinality(Nullable(String)),
    alloc_gpu_s Float64,
    running_gpu_s Float64,
    cap_gpu_s Float64,
    free_gpu_s Float64,
    unusable_gpu_s Float64,
    unsized_gpu_s Float64,
    obs_gpu_s Float64,
    util_gpu_s Float64,
    by_process_gpu_s Float64,
    beyond_gpu_s Float64,
    util_min Nullable(Float64),
    util_max Nullable(Float64),
    histogram Map(UInt8, UInt32),
    memory_obs_gpu_s Float64,
    memory_used_gpu_s Float64,
    memory_total_gpu_s Float64,
    memory_max Nullable(Float64),
    pod_s Float64,
    pods_min UInt32,
    pods_max UInt32,
    workloads UInt32,
    samples UInt64,
    buckets UInt32,
    provisional Bool,
    id Int64,
    created_at DateTime64(6, 'UTC'),
    updated_at DateTime64(6, 'UTC')
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(time)
ORDER BY (cluster, level, key, time, value);

CREATE TABLE IF NOT EXISTS gpu_usage.holdings
(
    cluster LowCardinality(String),
    namespace LowCardinality(String),
    pod String,
    pod_uid String,
    kind LowCardinality(String),
    name String,
    uid String,
    node LowCardinality(String),
    model LowCardinality(String),
    gpus Float64,
    labels Map(String, String),
    annotations Map(String, String),
    start_time DateTime64(6, 'UTC'),
    end_time DateTime64(6, 'UTC'),
    held_since DateTime64(6, 'UTC'),
    running_since Nullable(DateTime64(6, 'UTC')),
    held_until Nullable(DateTime64(6, 'UTC')),
    ending LowCardinality(Nullable(String))
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(start_time)
ORDER BY (cluster, namespace, start_time, pod_uid);

CREATE TABLE IF NOT EXISTS gpu_usage.capacities
(
    cluster LowCardinality(String),
    node LowCardinality(String),
    model LowCardinality(String),
    state LowCardinality(String),
    gpus Float64,
    start_time DateTime64(6, 'UTC'),
    end_time DateTime64(6, 'UTC')
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(start_time)
ORDER BY (cluster, node, start_time);

CREATE TABLE IF NOT EXISTS gpu_usage.quotas
(
    cluster LowCardinality(String),
    namespace LowCardinality(String),
    gpus Float64,
    start_time DateTime64(6, 'UTC'),
    end_time DateTime64(6, 'UTC')
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(start_time)
ORDER BY (cluster, namespace, start_time);

CREATE TABLE IF NOT EXISTS gpu_usage.snapshots
(
    cluster LowCardinality(String),
    time DateTime64(6, 'UTC'),
    capacity Float64,
    allocated Float64,
    id Int64,
    has_details Bool,
    created_at DateTime64(6, 'UTC')
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(time)
ORDER BY (cluster, time);

CREATE TABLE IF NOT EXISTS gpu_usage.snapshot_workloads
(
    cluster LowCardinality(String),
    time DateTime64(6, 'UTC'),
    namespace LowCardinality(String),
    kind LowCardinality(String),
    name String,
    uid String,
    gpus Float64,
    utilization Nullable(Float64)
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(time)
ORDER BY (cluster, time, namespace, kind, name, uid);

-- A nearest-rank percentile of a histogram (percent -> minutes), limited to the lowest and highest value.
CREATE OR REPLACE FUNCTION gpu_usage_percentile AS (histogram, rank, lowest, highest) ->
    if(
        arraySum(mapValues(histogram)) = 0,
        NULL,
        least(
            greatest(
                toFloat64(
                    mapKeys(mapSort(histogram))[
                        arrayFirstIndex(
                            minutes -> minutes >= greatest(1, ceil(rank * arraySum(mapValues(histogram)) / 100 - 1e-9)),
                            arrayCumSum(mapValues(mapSort(histogram)))
                        )
                    ]
                ),
                ifNull(lowest, 0)
            ),
            ifNull(highest, 100)
        )
    );
