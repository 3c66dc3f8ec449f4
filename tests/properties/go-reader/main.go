// Reads JSON arrays of YAML texts, and for each prints a JSON array of what kubectl's reader makes of the texts.
package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"

	"sigs.k8s.io/yaml"
)

func main() {
	input, output := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var texts []string
		if err := input.Decode(&texts); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			panic(err)
		}
		values := make([]json.RawMessage, len(texts))
		for i, text := range texts {
			value, err := yaml.YAMLToJSONStrict([]byte(text))
			if err != nil {
				value, _ = json.Marshal(map[string]string{"error": err.Error()})
			}
			values[i] = value
		}
		if err := output.Encode(values); err != nil {
			panic(err)
		}
	}
}
