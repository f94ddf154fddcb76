//go:build !cgo

package native

import (
	"context"

	"thoth/station/engine"
)

// Load refuses: this program was built without cgo.
func Load(context.Context, Options, func(float32)) (engine.Engine, error) {
	return nil, noEngine()
}

// Probe refuses as Load does.
func Probe(Options) (engine.Backend, error) { return engine.Backend{}, noEngine() }

// ABI is "none": there is no engine.
func ABI() string { return "none" }

func quantize(string, string, int) error { return noEngine() }

func noEngine() error {
	return loadError(engine.LoadNoEngine, "built without engine: build with CGO_ENABLED=1")
}
