-- GET /dimension-values
SELECT DISTINCT value FROM gpu_usage.hours
WHERE cluster = {cluster:String} AND level = {dimension_type:String} AND key = {dimension_key:String}
ORDER BY value;
