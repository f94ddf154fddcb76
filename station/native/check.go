package native

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"thoth/internal/gguf"
	"thoth/station/engine"
)

// modelFile is a checked model: its header, and the weights of all its shards.
type modelFile struct {
	path    string
	header  *gguf.Header
	weights int64
	shards  int
}

// checkModel reads a model's header and sees that the file is whole. llama.cpp
// maps the file and would meet what is missing as SIGBUS, long after it said
// ready. Errors are *engine.LoadError.
func checkModel(path string) (*modelFile, error) {
	if path == "" {
		return nil, loadError(engine.LoadNotFound, "no model file is set")
	}
	h, err := checkFile(path)
	if err != nil {
		return nil, err
	}
	m := &modelFile{path: path, header: h, weights: h.Weights(), shards: 1}
	// Before the architecture: the shards behind the first name none.
	if _, count := h.Shard(); count > 1 {
		if err := m.checkShards(int(count)); err != nil {
			return nil, err
		}
	}
	if h.Architecture() == "" {
		return nil, loadError(engine.LoadTruncated, "model file %s names no architecture (general.architecture)", path)
	}
	return m, nil
}

// checkShards sees that the other files of a split model lie beside the first.
func (m *modelFile) checkShards(count int) error {
	if count > 9999 {
		return loadError(engine.LoadTruncated, "model file %s claims %d shards", m.path, count)
	}
	name, named := gguf.ParseShardName(filepath.Base(m.path))
	shard := func(i int) string {
		return filepath.Join(filepath.Dir(m.path), gguf.ShardName{Stem: name.Stem, Count: count}.Sibling(i))
	}
	if no, _ := m.header.Shard(); no != 1 {
		hint := "the file that ends in -00001-of-" + fmt.Sprintf("%05d.gguf", count)
		if named {
			hint = shard(1)
		}
		return loadError(engine.LoadBadSetting, "model file %s is shard %d of %d: give the first shard, %s", m.path, no, count, hint)
	}
	if !named || name.No != 1 || name.Count != count {
		return loadError(engine.LoadBadSetting, "model file %s is the first of %d shards and must keep its name, ...-00001-of-%05d.gguf, for the others to be found", m.path, count, count)
	}
	for i := 2; i <= count; i++ {
		h, err := checkFile(shard(i))
		if err != nil {
			var le *engine.LoadError
			if errors.As(err, &le) && le.Kind == engine.LoadNotFound {
				return loadError(engine.LoadNotFound, "shard %d of %d of the model is missing: %s", i, count, le.Msg)
			}
			return err
		}
		if no, _ := h.Shard(); no != int64(i) {
			return loadError(engine.LoadTruncated, "model file %s is not shard %d but %d", shard(i), i, no)
		}
		m.weights += h.Weights()
	}
	m.shards = count
	return nil
}

// checkFile checks one file: there, readable, a GGUF, whole.
func checkFile(path string) (*gguf.Header, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, notFound(path, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, notFound(path, err)
	}
	if st.IsDir() {
		return nil, loadError(engine.LoadNotFound, "model file %s is a directory", path)
	}
	if !st.Mode().IsRegular() {
		return nil, loadError(engine.LoadNotFound, "model file %s is not a regular file", path)
	}
	h, err := gguf.Read(f, st.Size())
	var short *gguf.ExtentError
	var damaged *gguf.HeaderError
	switch {
	case errors.As(err, &short):
		return nil, loadError(engine.LoadTruncated, "model file %s is truncated or incomplete: tensor %q needs %d bytes at %d, the file has %d",
			path, short.Tensor.Name, short.Tensor.Bytes, short.Tensor.Offset, short.SizeBytes)
	case errors.Is(err, gguf.ErrTruncated), err != nil && st.Size() == 0:
		return nil, loadError(engine.LoadTruncated, "model file %s is truncated: its %d bytes end within the header", path, st.Size())
	case errors.Is(err, gguf.ErrNotGGUF):
		return nil, notGGUF(f, path)
	case errors.As(err, &damaged):
		return nil, loadError(engine.LoadTruncated, "model file %s is damaged: %s", path, damaged.Reason)
	case err != nil:
		return nil, loadError(engine.LoadTruncated, "model file %s is damaged: %v", path, err)
	}
	if appended(f, h) {
		return nil, loadError(engine.LoadTruncated, "model file %s holds another GGUF after its own data: shards put together in one file; keep them apart and give the first", path)
	}
	return h, nil
}

// appended tells whether another GGUF follows the data, padded or not.
func appended(f io.ReaderAt, h *gguf.Header) bool {
	end := h.End()
	for _, at := range []int64{end, (end + 31) &^ 31} {
		var b [4]byte
		if n, _ := f.ReadAt(b[:], at); n == 4 && gguf.HasMagic(b[:]) {
			return true
		}
	}
	return false
}

// notGGUF says what a file is that should have been a GGUF: mostly the trace of
// a download that went wrong.
func notGGUF(f io.ReaderAt, path string) error {
	b := make([]byte, 512)
	n, _ := f.ReadAt(b, 0)
	b = b[:n]
	text := strings.ToLower(string(bytes.TrimSpace(b)))
	what := "it does not begin with GGUF"
	switch {
	case strings.HasPrefix(text, "<!doctype html"), strings.HasPrefix(text, "<html"), strings.HasPrefix(text, "<?xml"):
		what = "it is a web page, as a failed download leaves it"
	case strings.HasPrefix(text, "version https://git-lfs"):
		what = "it is a Git LFS pointer: the file itself was not fetched (git lfs pull)"
	case bytes.HasPrefix(b, []byte("PK\x03\x04")):
		what = "it is a zip archive"
	case len(b) > 9 && b[8] == '{' && b[9] == '"' && b[7] == 0 && b[6] == 0:
		what = "it is a safetensors file, which must be converted first"
	case bytes.HasPrefix(b, []byte("ggml")), bytes.HasPrefix(b, []byte("lmgg")), bytes.HasPrefix(b, []byte("tjgg")):
		what = "it is of a format older than GGUF"
	case strings.HasPrefix(text, "{"):
		what = "it is JSON, as a failed download leaves it"
	case n < 4:
		what = "it has " + strconv.Itoa(n) + " bytes"
	}
	return loadError(engine.LoadNotGGUF, "model file %s is not a GGUF: %s", path, what)
}

func notFound(path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return loadError(engine.LoadNotFound, "model file %s cannot be read: %v", path, err)
}

func loadError(kind engine.LoadErrorKind, format string, args ...any) *engine.LoadError {
	return &engine.LoadError{Kind: kind, Msg: fmt.Sprintf(format, args...)}
}
