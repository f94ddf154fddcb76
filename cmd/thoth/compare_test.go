package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompare_AWrongAnswerIsNoFailure(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/v1/models" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		fmt.Fprint(w, `{"object":"list","data":[{"id":"m"}]}`)
	}))
	file := filepath.Join(t.TempDir(), "out.json")
	var out, said bytes.Buffer
	args := []string{"compare", "--url", srv.URL, "--url2", srv.URL, "--name2", "teapot", "--cases", "chat", "--out", file}
	require.Equal(t, 0, run(args, streams{&out, &said}), said.String())
	require.Contains(t, out.String(), "| chat | the members of an answer |")
	require.Regexp(t, `\| ✗ wrong \| \d+ \| \d+ \|`, out.String())
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(b), `"name": "teapot"`)

	srv.Close()
	require.Equal(t, 1, run(args, streams{&out, &said}))
	require.Contains(t, said.String(), "connection refused")
}
