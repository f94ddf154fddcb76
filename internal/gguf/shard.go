package gguf

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
)

// ShardName is the base name of one file of a split model,
// STEM-00001-of-00003.gguf.
type ShardName struct {
	Stem      string
	No, Count int // 1-based
}

var shardName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// ParseShardName takes a base name apart; ok is false for any other name.
func ParseShardName(base string) (n ShardName, ok bool) {
	m := shardName.FindStringSubmatch(base)
	if m == nil {
		return n, false
	}
	n.Stem = m[1]
	n.No, _ = strconv.Atoi(m[2]) // five digits
	n.Count, _ = strconv.Atoi(m[3])
	return n, true
}

// Sibling is the name of file no of the same model.
func (n ShardName) Sibling(no int) string {
	return fmt.Sprintf("%s-%05d-of-%05d.gguf", n.Stem, no, n.Count)
}

// Files gives the files of the model whose first file is path, in order: path
// alone when the model is not split.
func Files(path string) ([]string, error) {
	h, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	no, count := h.Shard()
	if count == 1 {
		return []string{path}, nil
	}
	name, ok := ParseShardName(filepath.Base(path))
	if no != 1 || !ok || int64(name.Count) != count {
		return nil, fmt.Errorf("%s is shard %d of %d and not named as the first of them", path, no, count)
	}
	files := make([]string, count)
	for i := range files {
		files[i] = filepath.Join(filepath.Dir(path), name.Sibling(i+1))
	}
	return files, nil
}
