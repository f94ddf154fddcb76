package native

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"thoth/station/engine"
)

// quantizeTypes are the types of weights that Quantize writes, with llama.cpp's
// numbers. Those that need an importance matrix are not among them.
var quantizeTypes = map[string]int{
	"f32": 0, "f16": 1, "bf16": 32, "q4_0": 2, "q4_1": 3, "q5_0": 8, "q5_1": 9, "q8_0": 7,
	"q3_k_m": 12, "q4_k_s": 14, "q4_k_m": 15, "q5_k_s": 16, "q5_k_m": 17, "q6_k": 18,
}

// QuantizeTypes lists what Quantize takes as weights.
func QuantizeTypes() []string { return slices.Sorted(maps.Keys(quantizeTypes)) }

// Quantize writes the model file in, the first shard of a split one, as one file
// out with weights of another type. Weights that are quantized already lose a
// little more, whatever the new type. A file out that is there is replaced, once
// the new one is whole. Errors are *engine.LoadError.
func Quantize(in, out, weights string) error {
	fileType, ok := quantizeTypes[weights]
	if !ok {
		return loadError(engine.LoadBadSetting, "weights cannot be quantized to %q, only to %s", weights, strings.Join(QuantizeTypes(), ", "))
	}
	if _, err := checkModel(in); err != nil {
		return err
	}
	if dir, err := os.Stat(out); err == nil && !dir.Mode().IsRegular() {
		return loadError(engine.LoadBadSetting, "the quantized model cannot be written to %s: it is no regular file", out)
	}
	partial := fmt.Sprintf("%s.%d.partial", out, os.Getpid())
	defer os.Remove(partial)
	if err := quantize(in, partial, fileType); err != nil {
		return loadError(engine.LoadEngineFailed, "%s cannot be quantized to %s: %v", in, weights, err)
	}
	if err := os.Rename(partial, out); err != nil {
		return loadError(engine.LoadBadSetting, "the quantized model cannot be written: %v", err)
	}
	return nil
}
