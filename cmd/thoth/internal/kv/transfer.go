package kv

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"thoth/internal/bucket"
	"thoth/station/kvstore/block"
	"thoth/station/kvstore/cold"
)

// maxObject bounds an object of an archive: a full block of the largest rows.
const maxObject = block.Tokens*block.MaxTokenBytes + 1<<20

// Export writes the blocks of a root, or of all, as a tar archive of objects: names are
// places, times those of last use. Sealed blocks stay sealed.
func (s *Store) Export(ctx context.Context, root string, out io.Writer) (blocks int, size int64, err error) {
	w := tar.NewWriter(out)
	err = s.each(ctx, root, func(o stored) error {
		if o.stray {
			return nil
		}
		err := s.read(ctx, o.Object.Name, -1, func(r io.Reader, n int64) error {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: o.Object.Name, Size: n, Mode: 0o600, ModTime: o.Time}); err != nil {
				return err
			}
			// A store that gives less than it said ends the archive: it would be torn.
			_, err := io.CopyN(w, r, n)
			return err
		})
		if errors.Is(err, bucket.ErrNotFound) {
			return nil // evicted meanwhile
		}
		if err != nil {
			return fmt.Errorf("%s: %w", o.Object.Name, err)
		}
		blocks, size = blocks+1, size+o.Size
		return nil
	})
	if err != nil {
		return blocks, size, err
	}
	return blocks, size, w.Close()
}

// Imported is what Import did.
type Imported struct {
	Blocks  int // put
	Bytes   int64
	There   int // were in the store already
	Refused int // damaged, or no blocks
}

// Import puts the blocks of an archive into the store, each verified before, and says
// of those it refuses place and reason. Parents come before children in no archive by
// need: a block whose parent is missing is swept in time.
func (s *Store) Import(ctx context.Context, in io.Reader, out io.Writer) (done Imported, err error) {
	var object bytes.Buffer
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if err == io.EOF {
			return done, nil
		}
		if err != nil {
			return done, fmt.Errorf("the archive: %w", err)
		}
		if err := ctx.Err(); err != nil {
			return done, err
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		refuse := func(reason block.Reason, detail string) {
			done.Refused++
			fmt.Fprintf(out, "%.300s\t%s\t%s\n", h.Name, reason, detail)
		}
		n, tokens, ok := cold.ParseObjectName(h.Name)
		switch {
		case !ok || h.Typeflag != tar.TypeReg:
			refuse(block.NotABlock, "no file named like a block")
			continue
		case h.Size > maxObject:
			refuse(block.Size, fmt.Sprintf("%d bytes, a block has at most %d", h.Size, int64(maxObject)))
			continue
		}
		object.Reset()
		if _, err := object.ReadFrom(r); err != nil {
			return done, fmt.Errorf("the archive: %w", err)
		}
		o := stored{Object: bucket.Object{Name: h.Name}, Name: n, tokens: tokens}
		var f *block.Fault
		if err := s.check(bytes.NewReader(object.Bytes()), int64(object.Len()), o); errors.As(err, &f) {
			refuse(f.Reason, f.Detail)
			continue
		} else if err != nil {
			return done, err
		}
		if err := s.put(ctx, h, object.Bytes(), &done); err != nil {
			return done, fmt.Errorf("%s: %w", h.Name, err)
		}
	}
}

// put writes an object that was verified, unless the store has it.
func (s *Store) put(ctx context.Context, h *tar.Header, object []byte, done *Imported) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	there, err := s.objects.Stat(ctx, h.Name)
	switch {
	case err == nil && there.Size == int64(len(object)):
		done.There++
		return nil
	case err != nil && !errors.Is(err, bucket.ErrNotFound):
		return err
	}
	err = s.objects.Write(ctx, h.Name, func(w io.Writer) error {
		_, err := w.Write(object)
		return err
	})
	if err != nil {
		return err
	}
	s.objects.Used(h.Name, h.ModTime)
	done.Blocks, done.Bytes = done.Blocks+1, done.Bytes+int64(len(object))
	return nil
}
