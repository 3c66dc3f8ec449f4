-- GET /clusters
SELECT cluster FROM gpu_usage.hours WHERE level = 'cluster' GROUP BY cluster ORDER BY min(time), cluster;
