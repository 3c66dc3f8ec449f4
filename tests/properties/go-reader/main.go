// Reads a JSON array of YAML texts and prints a JSON array of what kubectl's reader makes of each.
package main

import (
	"encoding/json"
	"os"

	"sigs.k8s.io/yaml"
)

func main() {
	var texts []string
	if err := json.NewDecoder(os.Stdin).Decode(&texts); err != nil {
		panic(err)
	}
	values := make([]json.RawMessage, len(texts))
	for i, text := range texts {
		value, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			value, _ = json.Marshal(map[string]string{"error": err.Error()})
		}
		values[i] = value
	}
	if err := json.NewEncoder(os.Stdout).Encode(values); err != nil {
		panic(err)
	}
}
