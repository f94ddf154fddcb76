package station

import (
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/engine"
)

func TestShown_NoFolderLeavesTheStation(t *testing.T) {
	w := shown(engine.Backend{Selected: "cpu",
		Libraries: []string{"/opt/thoth/lib/ollama/libggml-cpu-icelake.so"},
		Errors:    []string{"/opt/x y/lib/libggml-cuda.so: libcuda.so.1: cannot open shared object file", "no libggml-cpu*.so for this machine in /opt/thoth/lib/ollama"},
	})
	require.Equal(t, []string{"libggml-cpu-icelake.so"}, w.Libraries)
	for _, e := range w.Errors {
		require.NotContains(t, e, "/opt")
	}
	require.Contains(t, w.Errors[0], "libcuda.so.1: cannot open shared object file")
}
