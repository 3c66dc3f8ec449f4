package gpuctl

import (
	"cmp"
	"context"
	"errors"
	"math/rand"
	"net/http"
	"strconv"
	"time"
)

// Retry is the retry policy of idempotent requests: the number of attempts in all, and the pauses between them. Pauses
// double from Pause to Longest, each shortened at random so that many clients do not retry at the same time. Retry-After
// is respected, up to Longest. A pause of zero is that of [DefaultRetry].
type Retry struct {
	Attempts int
	Pause    time.Duration
	Longest  time.Duration
}

// DefaultRetry is the default policy of a client.
var DefaultRetry = Retry{Attempts: 5, Pause: 200 * time.Millisecond, Longest: 5 * time.Second}

// NoRetry is the policy without retries.
var NoRetry = Retry{Attempts: 1}

// after returns the time to wait after a failed attempt; the first attempt is 1.
func (r Retry) after(attempt int, retryAfter string) time.Duration {
	pause, longest := cmp.Or(r.Pause, DefaultRetry.Pause), cmp.Or(r.Longest, DefaultRetry.Longest)
	for ; attempt > 1 && pause < longest; attempt-- {
		pause *= 2
	}
	pause = min(pause, longest)
	drawn := pause/2 + time.Duration(rand.Int63n(int64(pause/2)+1))
	if seconds, err := strconv.ParseInt(retryAfter, 10, 32); err == nil && seconds > 0 {
		return max(drawn, min(time.Duration(seconds)*time.Second, longest))
	}
	return drawn
}

// isTransient returns true if the same request may succeed later.
func isTransient(ctx context.Context, err error) bool {
	var refused *APIError
	if errors.As(err, &refused) {
		switch refused.Status {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable:
			return true
		}
		return false
	}
	var broken *connectionError
	return ctx.Err() == nil && errors.As(err, &broken) && !errors.Is(err, context.DeadlineExceeded)
}

func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
