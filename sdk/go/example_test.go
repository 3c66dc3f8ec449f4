package gpuctl_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	gpuctl "github.com/gpuctl/gpuctl/sdk/go"
)

func Example() {
	client, err := gpuctl.New(os.Getenv("GPUCTL_URL"), os.Getenv("GPUCTL_TOKEN"))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	document, err := gpuctl.Documents(map[string]any{
		"kind": "training", "version": "v0.1",
		"job":         map[string]any{"name": "qwen2-7b-sft"},
		"environment": map[string]any{"image": "registry.example.com/sft:v1", "command": []string{"python", "train.py"}},
		"resources":   map[string]any{"pool": "training-pool", "gpu": 4, "cpu": 32, "memory": "128Gi"},
	})
	if err != nil {
		log.Fatal(err)
	}
	job, err := client.CreateJobs(ctx, document, nil)
	if err != nil {
		log.Fatal(err)
	}
	lines := client.FollowLogs(ctx, *job.JobID, nil)
	defer lines.Close()
	for lines.Next() {
		fmt.Println(lines.Line().Pod, lines.Line().Text)
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
}

func ExampleClient_AllNodes() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"total": 1, "items": [{"nodeName": "node-1", "status": "active", "gpuTotal": 8}]}`)
	}))
	defer server.Close()
	client, err := gpuctl.New(server.URL, "gpuctl_token")
	if err != nil {
		log.Fatal(err)
	}
	nodes := client.AllNodes(context.Background(), &gpuctl.ListNodesOptions{Pool: "training-pool"})
	for nodes.Next() {
		fmt.Println(nodes.Item().NodeName, nodes.Item().GPUTotal)
	}
	if err := nodes.Err(); err != nil {
		log.Fatal(err)
	}
	// Output: node-1 8
}

func ExampleAPIError() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error": "NotFound", "message": "there is no job chat", "details": []}`)
	}))
	defer server.Close()
	client, err := gpuctl.New(server.URL, "gpuctl_token")
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.GetJob(context.Background(), "chat", nil)
	var refused *gpuctl.APIError
	if errors.As(err, &refused) {
		fmt.Println(refused.Status, refused.Name, refused.Message)
	}
	// Output: 404 NotFound there is no job chat
}
