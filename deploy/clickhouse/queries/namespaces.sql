-- GET /namespaces
SELECT DISTINCT namespace FROM gpu_usage.holdings WHERE cluster = {cluster:String} ORDER BY namespace;
