package bucket

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

// probePrefix begins the names of the objects that try a bucket out, at its top.
const probePrefix = ".thoth-probe-"

// ProbeName tells whether an object at the top is a probe that was left behind.
func ProbeName(s string) bool { return strings.HasPrefix(s, probePrefix) }

// ProbeObject makes an object of so many random bytes that tries a bucket out.
func ProbeObject(size int) (name string, content []byte) {
	content = make([]byte, size)
	_, _ = rand.Read(content) // never fails
	return probePrefix + hex.EncodeToString(content[:8]), content
}

// Writing is a fill for Write of bytes that are there.
func Writing(content []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	}
}

// Try finds out whether a bucket can be used at all: it writes, reads and deletes a small
// object, and lists a folder, which need not be there.
func Try(ctx context.Context, o Objects, folder string) error {
	name, content := ProbeObject(64)
	if err := o.Write(ctx, name, Writing(content)); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	err := func() error {
		r, _, err := o.Read(ctx, name, -1)
		if err != nil {
			return fmt.Errorf("reading: %w", err)
		}
		defer r.Close()
		got, err := io.ReadAll(io.LimitReader(r, int64(len(content))+1))
		if err != nil {
			return fmt.Errorf("reading: %w", err)
		}
		if !bytes.Equal(got, content) {
			return errors.New("reading: other bytes come back than were written")
		}
		if err := o.List(ctx, folder+"/", func(Object) error { return nil }); err != nil {
			return fmt.Errorf("listing: %w", err)
		}
		return nil
	}()
	if derr := o.Delete(ctx, name); err == nil && derr != nil {
		err = fmt.Errorf("deleting: %w", derr)
	}
	return err
}
