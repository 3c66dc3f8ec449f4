package gpuctl

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"
)

// service is a client of the service that tests/service starts; elsewhere these tests are skipped.
func service(t *testing.T, address string) *Client {
	t.Helper()
	if os.Getenv(address) == "" {
		t.Skip(address + " has no address of a service")
	}
	client, err := New(os.Getenv(address), os.Getenv("GPUCTL_TOKEN"), WithRetry(soon))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// document is a training, or the like, in the namespace of these tests.
func document(t *testing.T, kind, name, image string) string {
	t.Helper()
	values := map[string]any{
		"kind": kind, "version": "v0.1",
		"job":         map[string]any{"name": name, "namespace": os.Getenv("GPUCTL_NAMESPACE")},
		"environment": map[string]any{"image": image, "command": []string{"run"}},
		"resources":   map[string]any{"pool": os.Getenv("GPUCTL_POOL"), "cpu": 1, "memory": "1Gi", "gpu": 1},
	}
	if kind == "compute" {
		values["service"] = map[string]any{"port": 80}
		values["resources"].(map[string]any)["gpu"] = 0
	}
	text, err := Documents(values)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func refusal(t *testing.T, err error, status int, name string) *APIError {
	t.Helper()
	var refused *APIError
	if !errors.As(err, &refused) || refused.Status != status || refused.Name != name {
		t.Fatalf("%v is not %d %s", err, status, name)
	}
	return refused
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestServiceJob(t *testing.T) {
	client, ctx := service(t, "GPUCTL_URL"), context.Background()
	checked, err := client.CreateJobs(ctx, document(t, "training", "go-a", "x:v1"), &CreateJobsOptions{DryRun: true})
	must(t, err)
	made, err := client.CreateJobs(ctx, document(t, "training", "go-a", "x:v1"), nil)
	must(t, err)
	if checked.JobID != nil || checked.Status != "validated" || made.JobID == nil || made.Status != "pending" {
		t.Fatalf("%+v %+v", checked, made)
	}
	running := &WaitOptions{Until: []string{"running"}, Every: 100 * time.Millisecond}
	waiting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err = client.WaitForJob(waiting, *made.JobID, running)
	must(t, err)
	found, err := client.GetJob(ctx, "go-a", &GetJobOptions{Namespace: os.Getenv("GPUCTL_NAMESPACE")})
	must(t, err)
	if found.JobID != *made.JobID || found.Resources.GPU != 1 {
		t.Fatalf("%+v", found)
	}
	paused, err := client.PauseJob(ctx, *made.JobID, nil)
	must(t, err)
	resumed, err := client.ResumeJob(ctx, *made.JobID, nil)
	must(t, err)
	changed, err := client.UpdateJob(ctx, *made.JobID, document(t, "training", "go-a", "x:v2"), &UpdateJobOptions{DryRun: true})
	must(t, err)
	deleted, err := client.DeleteJob(ctx, *made.JobID, &DeleteJobOptions{Force: true})
	must(t, err)
	said := []string{paused.Status, resumed.Status, changed.Status, deleted.Status}
	if !slices.Equal(said, []string{"paused", "resumed", "validated", "terminating"}) {
		t.Fatal(said)
	}
}

func TestServiceLists(t *testing.T) {
	client, ctx, namespace := service(t, "GPUCTL_URL"), context.Background(), os.Getenv("GPUCTL_NAMESPACE")
	documents := []string{"kind: nonsense\n"}
	for _, name := range []string{"go-b", "go-c", "go-d"} {
		documents = append(documents, document(t, "compute", name, "x:v1"))
	}
	batch, err := client.CreateJobBatch(ctx, documents, nil)
	must(t, err)
	if len(batch.Success) != 3 || len(batch.Failed) != 1 || batch.Failed[0].Error != "InvalidDocuments" {
		t.Fatalf("%+v", batch)
	}
	var names []string
	jobs := client.AllJobs(ctx, &ListJobsOptions{Namespace: namespace, Kind: "compute", PageSize: 2})
	for jobs.Next() {
		names = append(names, jobs.Item().Name)
	}
	must(t, jobs.Err())
	slices.Sort(names)
	if !slices.Equal(names, []string{"go-b", "go-c", "go-d"}) {
		t.Fatal(names)
	}
}

func TestServiceErrors(t *testing.T) {
	client, ctx := service(t, "GPUCTL_URL"), context.Background()
	_, err := client.GetJob(ctx, "not-there", nil)
	if refusal(t, err, 404, "NotFound").RequestID == "" {
		t.Fatal("it has no request id")
	}
	_, err = client.CreateJobs(ctx, "kind: training\nversion: v0.1\n", nil)
	if len(refusal(t, err, 400, "InvalidDocuments").Details) == 0 {
		t.Fatal("there are no diagnostics")
	}
	_, err = client.CreateJobs(ctx, document(t, "compute", "go-e", "x:v1"), nil)
	must(t, err)
	_, err = client.CreateJobs(ctx, document(t, "compute", "go-e", "x:v1"), nil)
	refusal(t, err, 409, "AlreadyExists")
	other, err := New(os.Getenv("GPUCTL_URL"), os.Getenv("GPUCTL_OTHER_TOKEN"))
	must(t, err)
	_, err = other.CreateJobs(ctx, document(t, "compute", "go-f", "x:v1"), nil)
	refusal(t, err, 403, "Forbidden")
	nobody, err := New(os.Getenv("GPUCTL_URL"), "gpuctl_wrong")
	must(t, err)
	_, err = nobody.ListJobs(ctx, nil)
	refusal(t, err, 401, "Unauthorized")
}

func TestServiceLabels(t *testing.T) {
	client, ctx, node, key := service(t, "GPUCTL_URL"), context.Background(), os.Getenv("GPUCTL_NODE"), "example.com/sdk-go"
	_, err := client.SetNodeLabel(ctx, node, NewLabel{Key: key, Value: "a"})
	must(t, err)
	_, err = client.SetNodeLabel(ctx, node, NewLabel{Key: key, Value: "b"})
	refusal(t, err, 409, "LabelConflict")
	found, err := client.GetNodeLabel(ctx, node, key)
	must(t, err)
	if found.Label.Value != "a" {
		t.Fatalf("%+v", found)
	}
	_, err = client.DeleteNodeLabel(ctx, node, key, nil)
	must(t, err)
	_, err = client.GetNodeLabel(ctx, node, key)
	refusal(t, err, 404, "LabelNotFound")
	quotas, err := client.ListQuotas(ctx)
	must(t, err)
	if int(quotas.Total) != len(quotas.Items) {
		t.Fatalf("%+v", quotas)
	}
}

// The network before the service cuts the first connection behind the request, and answers the next one with 503.
func TestServiceCreatesOnce(t *testing.T) {
	client, ctx := service(t, "GPUCTL_FLAKY_URL"), context.Background()
	made, err := client.CreateJobs(ctx, document(t, "compute", "go-g", "x:v1"), nil)
	must(t, err)
	options := &ListJobsOptions{Namespace: os.Getenv("GPUCTL_NAMESPACE")}
	found := false
	client.AllJobs(ctx, options).All(func(job JobItem, err error) bool {
		must(t, err)
		found = found || (job.Name == "go-g" && job.JobID == *made.JobID)
		return true
	})
	if !found {
		t.Fatal("it is not in the list")
	}
}

func TestServiceLogs(t *testing.T) {
	client, ctx := service(t, "GPUCTL_LOG_URL"), context.Background()
	lines := client.FollowLogs(ctx, os.Getenv("GPUCTL_LOG_JOB"), nil)
	defer lines.Close()
	var texts []string
	for lines.Next() {
		texts = append(texts, lines.Line().Text)
	}
	must(t, lines.Err())
	if !slices.Equal(texts, []string{"one", "two", "three"}) {
		t.Fatal(texts)
	}
}
