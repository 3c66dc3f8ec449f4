package gpuctl

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Documents joins documents into one text. Strings are YAML and passed on; other values become JSON, which is valid YAML.
func Documents(documents ...any) (string, error) {
	parts := make([]string, 0, len(documents))
	for _, document := range documents {
		text, isText := document.(string)
		if !isText {
			data, err := json.Marshal(document)
			if err != nil {
				return "", fmt.Errorf("gpuctl: %w", err)
			}
			text = escaped(string(data))
		}
		if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "---\n"), nil
}

// escaped escapes the characters that are valid in JSON, but not in YAML.
func escaped(text string) string {
	var out strings.Builder
	for _, character := range text {
		if (character >= 0x7f && character <= 0x9f) || character == 0xfeff || character == 0xfffe || character == 0xffff {
			fmt.Fprintf(&out, `\u%04x`, character)
		} else {
			out.WriteRune(character)
		}
	}
	return out.String()
}
