//go:build !cgo

package native

import (
	"context"

	"thoth/station/engine"
)

// Load refuses: this program was built without cgo.
func Load(context.Context, Options, func(float32)) (engine.Engine, error) {
	return nil, loadError(engine.LoadNoEngine, "built without engine: build with CGO_ENABLED=1")
}
