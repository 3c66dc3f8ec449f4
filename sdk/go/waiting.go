package gpuctl

import (
	"context"
	"slices"
	"time"
)

var ended = []string{"succeeded", "failed"}

// outage is the time for which waits and followed logs retry a service that has responded before: it may be replaced.
const outage = time.Minute

// WaitOptions are the optional parameters of WaitForJob.
type WaitOptions struct {
	// Until lists the expected statuses: running, succeeded, failed, paused. By default the job has to end.
	Until []string
	// Every is the polling interval; by default 2 seconds.
	Every time.Duration
	// Namespace is the namespace of the job; required if the name is ambiguous.
	Namespace string
}

// WaitForJob waits until a job has one of the expected statuses, and returns it; the context limits the time. If the job
// ends with another status, the error is a *JobEndedError. A service that is replaced may be away for a minute.
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
	var heard time.Time
	for {
		found, err := c.GetJob(ctx, job, &GetJobOptions{Namespace: options.Namespace})
		switch {
		case err == nil && slices.Contains(until, found.Status):
			return found.Status, nil
		case err == nil && slices.Contains(ended, found.Status):
			return "", &JobEndedError{Job: job, Status: found.Status}
		case err == nil:
			heard = time.Now()
		case !isTransient(ctx, err) || time.Since(heard) > outage:
			return "", err
		}
		if err := sleep(ctx, every); err != nil {
			return "", err
		}
	}
}
