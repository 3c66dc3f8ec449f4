// Package gpuctl is a client for gpuctl's REST API: GPU jobs on a Kubernetes cluster.
//
// A [Client] is created from the address of the service and a token, is safe for concurrent use, and needs only the
// standard library. Idempotent requests are retried if the service is busy or unavailable, or a connection breaks.
// Creations are retried too, because each has its own idempotency key.
package gpuctl
