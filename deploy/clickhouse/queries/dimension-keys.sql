-- GET /dimension-keys; dimension_type is label or annotation
SELECT DISTINCT key FROM gpu_usage.hours
WHERE cluster = {cluster:String} AND level = {dimension_type:String}
ORDER BY key;
