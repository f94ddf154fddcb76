package convert

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// crossArchitecture is the cross-encoder that is converted.
const crossArchitecture = "BertForSequenceClassification"

// maxHeader bounds the header of a safetensors file, as its own library does.
const maxHeader = 100 << 20

// crossEncoder shows a cross-encoder's folder the way ollama's conversion reads
// that of a plain BERT, with the tensors of its head under llama.cpp's names: the
// pooler is the dense layer of the head. Weights are read from their places.
type crossEncoder struct{ fs.FS }

// Open implements fs.FS.
func (c crossEncoder) Open(name string) (fs.File, error) {
	switch {
	case name == "config.json":
		return c.replaced(name, plainConfig)
	case name == "modules.json":
		return &memory{Reader: bytes.NewReader([]byte("[]"))}, nil
	case strings.HasSuffix(name, ".safetensors"):
		return c.weights(name)
	}
	return c.FS.Open(name)
}

func (c crossEncoder) replaced(name string, change func([]byte) ([]byte, error)) (fs.File, error) {
	b, err := fs.ReadFile(c.FS, name)
	if err != nil {
		return nil, err
	}
	if b, err = change(b); err != nil {
		return nil, err
	}
	return &memory{Reader: bytes.NewReader(b)}, nil
}

// plainConfig is config.json of the BERT below the head.
func plainConfig(b []byte) ([]byte, error) {
	var config map[string]json.RawMessage
	if err := json.Unmarshal(b, &config); err != nil {
		return nil, err
	}
	config["architectures"] = json.RawMessage(`["BertModel"]`)
	return json.Marshal(config)
}

// weights opens a safetensors file with its tensors renamed. The new header is
// padded to the length of the old one, so that the data stay where they are.
func (c crossEncoder) weights(name string) (fs.File, error) {
	f, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	renamed, err := renamedHeader(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	at, ok := f.(io.ReaderAt)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%s cannot be read from the middle", name), f.Close())
	}
	return &headed{File: f, head: renamed, data: at}, nil
}

// safetensor is a tensor's description.
type safetensor struct {
	Type    string          `json:"dtype"`
	Shape   []int64         `json:"shape"`
	Offsets json.RawMessage `json:"data_offsets"`
}

// readHeader reads a safetensors file's header and the names in it.
func readHeader(r io.Reader) (raw []byte, tensors map[string]json.RawMessage, err error) {
	var n uint64
	if err := binary.Read(r, binary.LittleEndian, &n); err != nil {
		return nil, nil, err
	}
	if n > maxHeader {
		return nil, nil, fmt.Errorf("its header has %d bytes", n)
	}
	raw = make([]byte, n)
	if _, err := io.ReadFull(r, raw); err != nil {
		return nil, nil, err
	}
	return raw, tensors, json.Unmarshal(raw, &tensors)
}

// renamedHeader gives a file's length field and header with llama.cpp's names of
// the head.
func renamedHeader(r io.Reader) ([]byte, error) {
	raw, tensors, err := readHeader(r)
	if err != nil {
		return nil, err
	}
	out := map[string]json.RawMessage{}
	for name, t := range tensors {
		if name = crossName(name); name != "" {
			out[name] = t
		}
	}
	head, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	if len(head) > len(raw) {
		return nil, errors.New("its header cannot be written in the same room")
	}
	head = append(head, bytes.Repeat([]byte{' '}, len(raw)-len(head))...)
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head...), nil
}

// crossName is what a tensor of a cross-encoder is to a BERT with llama.cpp's
// head; "" for what is left out.
func crossName(name string) string {
	if name == "__metadata__" || strings.HasSuffix(name, "embeddings.position_ids") {
		return "" // positions in order, of integers
	}
	if part, ok := strings.CutPrefix(name, "bert.pooler.dense."); ok {
		return "cls." + part
	}
	if part, ok := strings.CutPrefix(name, "classifier."); ok {
		return "cls.output." + part
	}
	return strings.TrimPrefix(name, "bert.")
}

// checkCross refuses heads that are no reranker's, or not all there.
func checkCross(src fs.FS) error {
	files, err := fs.Glob(src, "*.safetensors")
	if err != nil {
		return err
	}
	found := map[string]safetensor{}
	for _, name := range files {
		f, err := src.Open(name)
		if err != nil {
			return err
		}
		_, tensors, err := readHeader(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for name, raw := range tensors {
			var t safetensor
			if name != "__metadata__" && json.Unmarshal(raw, &t) == nil {
				found[crossName(name)] = t
			}
		}
	}
	for _, need := range []string{"cls.weight", "cls.bias", "cls.output.weight", "cls.output.bias"} {
		if _, ok := found[need]; !ok {
			return errors.New("its head is not all there: bert.pooler.dense and classifier, each with weight and bias, are needed")
		}
	}
	if shape := found["cls.output.weight"].Shape; len(shape) != 2 || shape[0] != 1 {
		return fmt.Errorf("its classifier has the shape %v; a reranker has one label", shape)
	}
	var config struct {
		Act string `json:"hidden_act"`
	}
	if err := readJSON(src, "config.json", &config); err != nil {
		return err
	}
	if config.Act != "" && config.Act != "gelu" {
		return fmt.Errorf("its activation is %q, and the engine's is gelu", config.Act)
	}
	return nil
}

// memory is a small file that is not there.
type memory struct{ *bytes.Reader }

func (m *memory) Stat() (fs.FileInfo, error) { return nil, fs.ErrInvalid }
func (m *memory) Close() error               { return nil }

// headed is a file whose first bytes are others.
type headed struct {
	fs.File
	head []byte
	data io.ReaderAt
	at   int64
}

func (h *headed) Read(p []byte) (int, error) {
	n, err := h.ReadAt(p, h.at)
	h.at += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

func (h *headed) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(h.head)) {
		return h.data.ReadAt(p, off)
	}
	n := copy(p, h.head[off:])
	if n == len(p) {
		return n, nil
	}
	more, err := h.data.ReadAt(p[n:], int64(len(h.head)))
	return n + more, err
}
