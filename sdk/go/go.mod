module github.com/gpuctl/gpuctl/sdk/go

go 1.22
