package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ollama/ollama/convert"

	"thoth/internal/gguf"
)

// Options of a conversion.
type Options struct {
	// Name is the model's name in the GGUF, which requests use by default; "": the
	// folder's name.
	Name string

	cross bool // it is a cross-encoder
}

// Folder converts the model in a folder into the file out, which it replaces.
func Folder(ctx context.Context, folder, out string, o Options) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	if o.Name == "" {
		o.Name = filepath.Base(folder)
	}
	src := os.DirFS(folder)
	cross, err := check(src)
	if err != nil {
		return fmt.Errorf("model folder %s: %w", folder, err)
	}
	o.cross = cross
	if cross {
		src = crossEncoder{src}
	}
	// Both lie where the result goes: /tmp may be small, and a rename must not
	// cross a file system.
	dir, err := os.MkdirTemp(filepath.Dir(out), ".convert-")
	if err != nil {
		return fmt.Errorf("output folder: %w", err)
	}
	defer os.RemoveAll(dir)
	raw, done := filepath.Join(dir, "raw.gguf"), filepath.Join(dir, "done.gguf")
	if err := write(raw, func(f *os.File) error { return convert.ConvertModel(src, f) }); err != nil {
		return fmt.Errorf("model folder %s cannot be converted: %w", folder, err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := mend(raw, done, src, o); err != nil {
		return fmt.Errorf("model folder %s: %w", folder, err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, err := gguf.ReadFile(done); err != nil {
		return fmt.Errorf("what the conversion of %s gave cannot be used: %w", folder, err)
	}
	return os.Rename(done, out)
}

// write makes a file whose bytes are on disk when it returns.
func write(path string, fill func(*os.File) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err = fill(f); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// check refuses a folder that the conversion would fail on with words that help
// nobody, or convert into something that answers wrongly. cross says that the
// model is a cross-encoder.
func check(src fs.FS) (cross bool, err error) {
	for _, need := range []string{"config.json", "tokenizer.json"} {
		if _, err := fs.Stat(src, need); err != nil {
			if _, err := fs.Stat(src, "tokenizer.model"); err == nil && need == "tokenizer.json" {
				continue
			}
			return false, fmt.Errorf("it has no %s", need)
		}
	}
	if weights, err := fs.Glob(src, "*.safetensors"); err != nil || len(weights) == 0 {
		return false, errors.New("it has no .safetensors file")
	}
	var config struct {
		Architectures []string `json:"architectures"`
	}
	if err := readJSON(src, "config.json", &config); err != nil {
		return false, err
	}
	if len(config.Architectures) == 0 {
		return false, errors.New("config.json names no architecture")
	}
	switch arch := config.Architectures[0]; {
	case arch == crossArchitecture:
		if err := checkVocabulary(src); err != nil {
			return false, err
		}
		return true, checkCross(src)
	case strings.Contains(arch, "Bert"):
		if err := checkVocabulary(src); err != nil {
			return false, err
		}
		return false, checkPooling(src)
	}
	return false, nil
}

// checkVocabulary looks at what the engine's BERT can read: vocabularies without
// case or accents.
func checkVocabulary(src fs.FS) error {
	var tokenizer struct {
		Normalizer struct {
			Type         string `json:"type"`
			Lowercase    *bool  `json:"lowercase"`
			StripAccents *bool  `json:"strip_accents"`
		} `json:"normalizer"`
		Model struct {
			Type string `json:"type"`
		} `json:"model"`
	}
	if err := readJSON(src, "tokenizer.json", &tokenizer); err != nil {
		return err
	}
	n := tokenizer.Normalizer
	if tokenizer.Model.Type == "WordPiece" && (n.Lowercase != nil && !*n.Lowercase || n.StripAccents != nil && !*n.StripAccents) {
		return errors.New("its vocabulary minds case or accents, and the engine's tokeniser drops both")
	}
	return nil
}

// checkPooling looks for vectors that are means or the first token's.
func checkPooling(src fs.FS) error {
	var modules []struct {
		Type string `json:"type"`
		Path string `json:"path"`
	}
	if _, err := fs.Stat(src, "modules.json"); err != nil {
		return errors.New("it has no modules.json, which says how token vectors become one (sentence-transformers writes it)")
	}
	if err := readJSON(src, "modules.json", &modules); err != nil {
		return err
	}
	for _, m := range modules {
		if m.Type != "sentence_transformers.models.Pooling" {
			continue
		}
		modes := map[string]any{}
		if err := readJSON(src, m.Path+"/config.json", &modes); err != nil {
			return err
		}
		for mode, on := range modes {
			if on == true && strings.HasPrefix(mode, "pooling_mode_") && mode != "pooling_mode_mean_tokens" && mode != "pooling_mode_cls_token" {
				return fmt.Errorf("its pooling is %s, and the engine knows mean_tokens and cls_token", strings.TrimPrefix(mode, "pooling_mode_"))
			}
		}
	}
	return nil
}

func readJSON(src fs.FS, name string, v any) error {
	b, err := fs.ReadFile(src, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
