package pull

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse_ReadsEveryKind(t *testing.T) {
	sum := strings.Repeat("Ab", 32)
	tests := []struct {
		in   string
		want Spec
	}{
		{"/m/x.gguf", Spec{Kind: KindPath, Text: "/m/x.gguf", Path: "/m/x.gguf"}},
		{"/m/x.gguf#sha256=" + sum, Spec{Kind: KindPath, Text: "/m/x.gguf", Path: "/m/x.gguf", SHA256: strings.ToLower(sum)}},
		{"hf:own/re.po/q/x.gguf@v1.0", Spec{Kind: KindHF, Text: "hf:own/re.po/q/x.gguf@v1.0", Owner: "own", Repo: "re.po",
			File: "q/x.gguf", Revision: "v1.0", Rel: "hf/own/re.po/v1.0/q/x.gguf"}},
		{"pip:llm-x==1.2/models/x.gguf", Spec{Kind: KindPip, Text: "pip:llm-x==1.2/models/x.gguf", Package: "llm-x",
			Version: "1.2", Member: "models/x.gguf", Rel: "pip/llm-x==1.2/models/x.gguf"}},
	}
	for _, tt := range tests {
		s, err := Parse(tt.in)
		require.NoError(t, err, tt.in)
		require.Equal(t, tt.want, *s, tt.in)
	}
	s, err := Parse("")
	require.NoError(t, err)
	require.Equal(t, KindPip, s.Kind)
	require.Len(t, s.SHA256, 64)
}

func TestParse_KeepsURLsApartAndShardsTogether(t *testing.T) {
	rel := func(in string) string {
		s, err := Parse(in)
		require.NoError(t, err, in)
		return s.Rel
	}
	require.NotEqual(t, rel("https://h/a/x.gguf"), rel("https://h/b/x.gguf"))
	require.NotEqual(t, rel("https://h/a/x.gguf"), rel("https://h/a/x.gguf?v=2"))
	require.NotEqual(t, rel("https://h/a/x.gguf"), rel("https://g/a/x.gguf"))
	require.NotEqual(t, rel("https://h/a/x%20y.gguf"), rel("https://h/a/x_y.gguf"))
	require.NotEqual(t, rel("pip:p/a/x.gguf"), rel("pip:p/b/x.gguf"))
	require.True(t, strings.HasSuffix(rel("https://h/a/x%2f..%2fy.gguf"), "y.gguf"))
	require.NotContains(t, rel("https://h/a/x%2f..%2fy.gguf"), "..")
}

func TestParse_RefusesWithTheReason(t *testing.T) {
	for in, want := range map[string]string{
		"#sha256=" + strings.Repeat("a", 64): "names no file",
		"/m/x.gguf#sha256=12":                "64 hexadecimal digits",
		"ftp://h/x.gguf":                     "want a local path",
		"http://example.com/x.gguf":          "needs a #sha256",
		"https://h/":                         "does not end in a file name",
		"https:///x.gguf":                    "no host",
		"https://me:pw@h/x.gguf":             "password",
		"hf:own/x.gguf":                      "hf:owner/repo/file.gguf",
		"hf:own/repo/../../x.gguf":           "path element",
		"hf:own/repo/x.bin":                  "must end in .gguf",
		"hf:own/repo/x.gguf@../main":         "revision",
		"hf:own/../x.gguf":                   "owner and repository",
		"pip:llm":                            "pip:package/file.gguf",
		"pip:--index-url=http://evil/x":      "package name",
		"pip:llm==1;rm/x.gguf":               "version",
		"pip:llm/../x.gguf":                  "path element",
	} {
		_, err := Parse(in)
		require.ErrorContains(t, err, want, in)
	}
}

func TestSpec_ShardsNameEveryPart(t *testing.T) {
	s, err := Parse("hf:o/r/big-00001-of-00003.gguf")
	require.NoError(t, err)
	s.Resolve("http://hub/")
	parts, err := s.Shards()
	require.NoError(t, err)
	require.Len(t, parts, 3)
	require.Equal(t, "http://hub/o/r/resolve/main/big-00001-of-00003.gguf", parts[0].URL)
	require.Equal(t, "http://hub/o/r/resolve/main/big-00003-of-00003.gguf", parts[2].URL)
	require.Equal(t, "hf/o/r/main/big-00003-of-00003.gguf", parts[2].Rel)

	s, err = Parse("https://h/big-00002-of-00003.gguf")
	require.NoError(t, err)
	_, err = s.Shards()
	require.ErrorContains(t, err, "name its first part")
}
