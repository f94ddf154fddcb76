package cmd

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every setting of the programs stands in docs/settings.md, and nothing that is
// none.
func TestSettings_AreInTheTable(t *testing.T) {
	doc, err := os.ReadFile("../docs/settings.md")
	require.NoError(t, err)
	files, err := filepath.Glob("*/*.go")
	require.NoError(t, err)
	set := map[string]bool{}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		src, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`env:"([^"]+)"`).FindAllStringSubmatch(string(src), -1) {
			set[m[1]] = true
		}
	}
	require.Greater(t, len(set), 40, "the settings are no longer found where this test looks")
	table := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z0-9_]+)`").FindAllStringSubmatch(string(doc), -1) {
		table[m[1]] = true
	}
	for s := range set {
		require.True(t, table[s], "docs/settings.md lacks %s", s)
	}
	for s := range table {
		switch s {
		case "THOTH_CACHE", "THOTH_TEST_MODEL", "GOMEMLIMIT": // not flags
			continue
		}
		require.True(t, set[s], "docs/settings.md names %s, which no program reads", s)
	}
}
