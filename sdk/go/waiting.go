package gpuctl

import (
	"context"
	"slices"
	"time"
)

var ended = []string{"succeeded", "failed"}

// WaitOptions are what may be said to WaitForJob.
type WaitOptions struct {
	// Until has the statuses that are waited for: running, succeeded, failed, paused. By default the job has to end.
	Until []string
	// Every is the time between two looks; by default 2 seconds.
	Every time.Duration
	// Namespace is where the job is, if its name is in several.
	Namespace string
}

// WaitForJob waits until a job has a certain status, and returns it; the context says for how long. A job that has ended
// otherwise is a *JobEndedError.
func (c *Client) WaitForJob(ctx context.Context, job string, options *WaitOptions) (string, error) {
	if options == nil {
		options = &WaitOptions{}
	}
	until, every := options.Until, options.Every
	if len(until) == 0 {
		until = ended
	}
	if every <= 0 {
		every = 2 * time.Second
	}
	for {
		found, err := c.GetJob(ctx, job, &GetJobOptions{Namespace: options.Namespace})
		if err != nil {
			return "", err
		}
		if slices.Contains(until, found.Status) {
			return found.Status, nil
		}
		if slices.Contains(ended, found.Status) {
			return "", &JobEndedError{Job: job, Status: found.Status}
		}
		if err := sleep(ctx, every); err != nil {
			return "", err
		}
	}
}
