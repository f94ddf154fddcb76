package prompt

import (
	"embed"
	"strings"
)

// The built-in templates serve models whose GGUF has none. They are written
// from the formats the makers describe.
//
//go:embed builtin/*.jinja
var builtins embed.FS

// families maps a part of the architecture's name to a built-in template. The
// end-of-sequence text is asked first: "llama" alone says little.
var families = []struct{ part, name string }{
	{"gemma", "gemma"},
	{"phi", "phi"},
	{"mistral", "mistral"},
	{"mixtral", "mistral"},
}

// builtin chooses a template by the model's tokens and family; chatml is what
// most models without one were tuned with.
func builtin(src Source) (name, text string) {
	name = "chatml"
	arch := strings.ToLower(src.Architecture)
	for _, f := range families {
		if strings.Contains(arch, f.part) {
			name = f.name
			break
		}
	}
	switch src.EOS {
	case "<|im_end|>":
		name = "chatml"
	case "<|eot_id|>":
		name = "llama3"
	case "<end_of_turn>":
		name = "gemma"
	case "<|end|>":
		name = "phi"
	case "</s>":
		if arch == "llama" {
			name = "mistral"
		}
	}
	b, err := builtins.ReadFile("builtin/" + name + ".jinja")
	if err != nil { // the names above are files of this folder; a test reads each
		panic(err)
	}
	return name, string(b)
}
