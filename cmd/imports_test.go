// Package cmd holds the programs. Its one test keeps the arrows between the
// project's packages.
package cmd

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// may lists, for each part of the project, the parts it may import. A part is a
// folder and what lies below it, the longest name wins. internal is free
// to all. Tests may import more; what ships may not.
var may = map[string][]string{
	"station/wire":        {},
	"station/engine":      {},
	"station/client":      {"station/wire"},
	"station/native":      {"station/engine"},
	"station/stationtest": {"station/wire", "station/engine", "station/client"},
	"station/kvstore":     {"station/wire", "station/engine"},
	"station":             {"station/wire", "station/engine", "station/kvstore"},
	"liquid":              {"station/client", "station/wire"},
	"host":                {"host/openai", "host/openapi", "host/prompt", "host/grammar", "host/dialect", "host/stored", "liquid", "station/client", "station/wire"},
	"host/openai":         {"station/wire"},
	"host/openapi":        {},
	"host/prompt":         {"station/wire"},
	"host/grammar":        {},
	"host/stored":         {},
	"host/dialect":        {"host/grammar"},
	"entrypoint":          {"station/engine", "station/wire", "station/client"},
	"internal":            {},
	"cmd/fat-station":     {"station", "station/native", "station/kvstore", "station/engine", "station/wire"},
	"cmd/openai-server":   {"host", "host/openai", "host/stored", "liquid", "station/wire", "station/client"},
	"cmd/entrypoint":      {"entrypoint", "station/client", "station/wire"},
	"cmd/thoth":           {"station/client", "station/wire", "station/engine", "station/kvstore", "entrypoint"},
	"cmd/e2e":             {"station/client", "station/wire"},
}

type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func list(t *testing.T, cgo string, patterns ...string) []pkg {
	t.Helper()
	c := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports,Deps", "-e"}, patterns...)...)
	c.Dir = ".."
	c.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	out, err := c.Output()
	require.NoError(t, err)
	var all []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); err == io.EOF {
			return all
		} else {
			require.NoError(t, err)
		}
		all = append(all, p)
	}
}

func part(path string) string {
	path = strings.TrimPrefix(path, "thoth/")
	best := ""
	for p := range may {
		if (path == p || strings.HasPrefix(path, p+"/")) && len(p) > len(best) {
			best = p
		}
	}
	return best
}

func TestImports_PointOneWay(t *testing.T) {
	seen := 0
	for _, p := range list(t, "0", "./...") {
		from := part(p.ImportPath)
		if p.ImportPath == "thoth/cmd" {
			continue
		}
		require.NotEmpty(t, from, "%s belongs to no part: give it a place in the table", p.ImportPath)
		for _, i := range p.Imports {
			if !strings.HasPrefix(i, "thoth/") || part(i) == from || strings.HasPrefix(i, "thoth/internal/") {
				continue
			}
			seen++
			require.Contains(t, may[from], part(i), "%s imports %s", p.ImportPath, i)
		}
	}
	require.NotZero(t, seen, "the listing shows no arrow at all")
}

func TestImports_OnlyTheStationReachesCgo(t *testing.T) {
	const engine = "github.com/ollama/ollama/llama/llama.cpp/src"
	reach := map[string]bool{}
	for _, p := range list(t, "1", "./...") {
		for _, d := range p.Deps {
			if d == engine {
				reach[p.ImportPath] = true
			}
		}
	}
	require.Equal(t, map[string]bool{"thoth/station/native": true, "thoth/cmd/fat-station": true}, reach)
}

func TestImports_WireIsStandardLibraryOnly(t *testing.T) {
	for _, p := range list(t, "0", "./station/wire") {
		for _, d := range p.Deps {
			require.NotContains(t, strings.Split(d, "/")[0], ".", "station/wire reaches %s", d)
		}
	}
}
