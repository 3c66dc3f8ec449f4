// Package gpuctl is a client of gpuctl's REST API: jobs on the GPUs of a Kubernetes cluster.
//
// A [Client] is made of the address of the service and a token, is safe for use by several goroutines, and needs nothing
// but the standard library. What is idempotent is sent again when the service is busy, is away for a moment, or a
// connection breaks; a creation too, as each has a key of its own.
package gpuctl
