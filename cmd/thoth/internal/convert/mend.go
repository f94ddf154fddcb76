package convert

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/ollama/ollama/fs/ggml"
)

// mend writes the GGUF raw again with the settings that llama.cpp looks for and
// ollama's conversion leaves out.
func mend(raw, out string, src fs.FS, o Options) error {
	in, err := os.Open(raw)
	if err != nil {
		return err
	}
	defer in.Close()
	model, err := ggml.Decode(in, -1)
	if err != nil {
		return fmt.Errorf("the conversion's result cannot be read: %w", err)
	}
	kv := model.KV()
	mendSettings(kv, statedTokens(src), o)
	all := model.Tensors()
	var tensors []*ggml.Tensor
	for _, t := range all.Items() {
		copied := *t
		copied.WriterTo = section{in, int64(all.Offset + t.Offset), int64(t.Size())}
		tensors = append(tensors, &copied)
	}
	return write(out, func(f *os.File) error { return ggml.WriteGGUF(f, kv, tensors) })
}

// mendSettings changes the settings of a converted model. stated are the keys of
// the folder's tokenizer_config.json.
func mendSettings(kv ggml.KV, stated map[string]bool, o Options) {
	kv["general.name"] = o.Name
	kv["general.type"] = "model"
	// The conversion writes "false" for every add_..._token the folder is silent
	// about. To llama.cpp silence means what the kind of vocabulary does by
	// itself: around a WordPiece text stand [CLS] and [SEP].
	for key := range kv {
		if name, ok := strings.CutPrefix(key, "tokenizer.ggml."); ok && strings.HasPrefix(name, "add_") && strings.HasSuffix(name, "_token") && !stated[name] {
			delete(kv, key)
		}
	}
	if o.cross {
		kv["bert.pooling_type"] = uint32(4) // rank
		delete(kv, "bert.normalize_embeddings")
	}
	if kv["tokenizer.ggml.model"] != "bert" {
		return
	}
	// llama.cpp opens a text with BOS, and takes the first BERT's [CLS] for it where
	// the file names none.
	if cls, ok := kv["tokenizer.ggml.cls_token_id"]; ok {
		kv["tokenizer.ggml.bos_token_id"] = cls
	}
}

// statedTokens are the names that tokenizer_config.json has, if it is there.
func statedTokens(src fs.FS) map[string]bool {
	var config map[string]json.RawMessage
	if readJSON(src, "tokenizer_config.json", &config) != nil {
		return nil // none: the conversion has read it, so it is no broken one
	}
	stated := map[string]bool{}
	for name := range config {
		stated[name] = true
	}
	return stated
}

// section is a part of a file that writes itself.
type section struct {
	r      io.ReaderAt
	offset int64
	bytes  int64
}

func (s section) WriteTo(w io.Writer) (int64, error) {
	n, err := io.Copy(w, io.NewSectionReader(s.r, s.offset, s.bytes))
	if err == nil && n != s.bytes {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
