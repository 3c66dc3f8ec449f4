// kubectl's YAML reader, for the property that strings arrive as written.
module gpuctl/tests/properties/go-reader

go 1.23

require sigs.k8s.io/yaml v1.6.0

require go.yaml.in/yaml/v2 v2.4.2 // indirect
