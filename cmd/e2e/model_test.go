//go:build e2e

package e2e

import (
	"bytes"
	bin "encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// unusable starts a server that cannot serve: never ready, one start of the
// station, one sentence, and the exit code that is documented for it.
func unusable(t *testing.T, change func(*exec.Cmd), code int, env ...string) (sentence string) {
	t.Helper()
	s, _ := launchAs(change, env...)
	require.NotNil(t, s)
	t.Cleanup(s.kill)
	require.Equal(t, code, s.exits(t, 5*time.Second), s.log())
	log := s.log()
	require.NotContains(t, log, "ready: ")
	require.LessOrEqual(t, strings.Count(log, "station listens, loading model"), 1)
	require.Empty(t, s.pauses(t), "no restart mends it")
	require.NotRegexp(t, crash, log)
	sentence = lastLine(log)
	require.True(t, strings.HasPrefix(sentence, "entrypoint: station: "), sentence)
	require.True(t, strings.HasSuffix(sentence, fmt.Sprintf(" (exit code %d)", code)), sentence)
	return sentence
}

// modelCopy is a file that may be changed.
func modelCopy(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "copy.gguf")
	from, err := os.Open(model())
	require.NoError(t, err)
	defer from.Close()
	to, err := os.Create(path)
	require.NoError(t, err)
	_, err = io.Copy(to, from) // the kernel shares or copies it
	require.NoError(t, err)
	require.NoError(t, to.Close())
	return path
}

func TestModel_Truncated(t *testing.T) {
	path := modelCopy(t)
	st, err := os.Stat(path)
	require.NoError(t, err)
	for _, size := range []int64{st.Size() - 1, st.Size() / 2, 1 << 10, 4, 0} {
		require.NoError(t, os.Truncate(path, size))
		sentence := unusable(t, nil, 66, "THOTH_MODEL="+path)
		require.Contains(t, sentence, path)
		require.Regexp(t, "truncated|incomplete", sentence)
	}
}

func TestModel_TensorOutsideTheFile(t *testing.T) {
	path := modelCopy(t)
	g := readGGUF(t, path)
	// The last eight bytes of a tensor's description are its offset.
	end := g.tensors[len(g.tensors)/2].end
	patch(t, path, end-8, bin.LittleEndian.AppendUint64(nil, 1<<40))
	sentence := unusable(t, nil, 66, "THOTH_MODEL="+path)
	require.Contains(t, sentence, path)
	require.Regexp(t, "truncated|incomplete", sentence)
}

func patch(t *testing.T, path string, at int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(b, at)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func TestModel_NotAGGUF(t *testing.T) {
	for name, c := range map[string]struct{ content, hint string }{
		"web page":    {"<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head></html>\n", "web page"},
		"LFS pointer": {"version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("ab", 32) + "\nsize 98362432\n", "LFS"},
		"zip":         {"PK\x03\x04" + strings.Repeat("\x00", 200), "zip"},
		"safetensors": {"\x40\x00\x00\x00\x00\x00\x00\x00" + `{"__metadata__":{"format":"pt"}}` + strings.Repeat(" ", 200), "safetensors"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "model.gguf")
			require.NoError(t, os.WriteFile(path, []byte(c.content), 0o644))
			sentence := unusable(t, nil, 65, "THOTH_MODEL="+path)
			require.Contains(t, sentence, path+" is not a GGUF")
			require.Contains(t, sentence, c.hint)
		})
	}
}

func TestModel_WrongPath(t *testing.T) {
	dir := t.TempDir()
	for want, path := range map[string]string{
		dir + "/missing.gguf":   dir + "/missing.gguf",
		dir + " is a directory": dir,
		"no model file is set":  "",
	} {
		require.Contains(t, unusable(t, nil, 64, "THOTH_MODEL="+path), want)
	}
}

func TestModel_RelativePathWithSpacesAndLettersOfAllKinds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "módèl Ω 模型")
	require.NoError(t, os.Mkdir(dir, 0o755))
	path := filepath.Join(dir, "größe 1.gguf")
	place(t, model(), path)
	here, err := os.Getwd()
	require.NoError(t, err)
	relative, err := filepath.Rel(here, path)
	require.NoError(t, err)
	for _, p := range []string{path, relative} {
		s := start(t, "THOTH_MODEL="+p)
		s.answersAgain(t)
		require.Equal(t, 0, s.stop())
	}
}

func TestModel_UnknownArchitecture(t *testing.T) {
	path := modelCopy(t)
	head := make([]byte, 4096)
	f, err := os.Open(path)
	require.NoError(t, err)
	_, err = io.ReadFull(f, head)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	// The key, its type, the value's length, the value.
	key := []byte("general.architecture\x08\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00llama")
	at := bytes.Index(head, key)
	require.Positive(t, at)
	patch(t, path, int64(at+len(key)-5), []byte("notre"))
	sentence := unusable(t, nil, 67, "THOTH_MODEL="+path)
	require.Contains(t, sentence, "notre")
	require.NotRegexp(t, "truncated|incomplete|damaged|corrupt", sentence)
}

func TestModel_TooLittleMemory(t *testing.T) {
	t.Run("ForTheCellsAskedFor", func(t *testing.T) {
		require.Contains(t, unusable(t, nil, 68, "THOTH_CELLS=100000000"), "cells")
	})
	t.Run("ForTheContextAskedFor", func(t *testing.T) {
		require.Contains(t, unusable(t, nil, 68, "THOTH_CONTEXT_LENGTH=100000000"), "a context of 100000000 tokens")
	})
	t.Run("UnderALimitBelowTheModel", func(t *testing.T) {
		sentence := unusable(t, limitMemory(t, 90<<20), 68)
		require.Contains(t, sentence, "does not fit into memory")
		require.Contains(t, sentence, model())
	})
	t.Run("UnderALimitBelowTheCells", func(t *testing.T) {
		sentence := unusable(t, limitMemory(t, 600<<20), 68, "THOTH_CELLS=32768")
		require.Contains(t, sentence, "cells of KV need")
	})
	t.Run("LessIsAnnouncedWhereNothingWasAskedFor", func(t *testing.T) {
		s := startAs(t, limitMemory(t, 600<<20), "THOTH_CONTEXT_LENGTH=")
		require.NoError(t, s.waitReady(), s.log())
		s.answersAgain(t)
		station := s.do(t, "GET", "/health", nil).JSON(t)["station"].(obj)
		require.Less(t, station["cells"], 32768.0, "four contexts would be %v", 4*8192)
		require.Equal(t, 0, s.stop())
	})
}

// limitMemory starts a server in a cgroup of so many bytes.
func limitMemory(t *testing.T, limit int64) func(*exec.Cmd) {
	t.Helper()
	for _, c := range []struct{ root, file string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, // version 1
		{"/sys/fs/cgroup", "memory.max"},                   // version 2
	} {
		dir := filepath.Join(c.root, fmt.Sprintf("thoth-test-%d-%d", os.Getpid(), limit))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
		if os.WriteFile(filepath.Join(dir, c.file), fmt.Append(nil, limit), 0o644) != nil {
			continue
		}
		return func(cmd *exec.Cmd) {
			shell(`echo $$ > "$GROUP/cgroup.procs" && exec "$0"`)(cmd)
			cmd.Env = append(cmd.Env, "GROUP="+dir)
		}
	}
	t.Skip("no cgroup with a memory limit to be had")
	return nil
}
