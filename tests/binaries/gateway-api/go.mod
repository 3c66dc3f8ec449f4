// The CustomResourceDefinition of HTTPRoute, which tests install, and which `make schemas` turns into
// compiler/gpuctl/backend/schemas/gateway-api.json. To move to a newer release: write its version here, `go mod
// download sigs.k8s.io/gateway-api`, then `make schemas`.
module gpuctl/tests/binaries/gateway-api

go 1.26.0

require sigs.k8s.io/gateway-api v1.6.3
