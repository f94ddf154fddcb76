package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/gcerrors"
)

// ErrNotFound says that a bucket has no object of this name.
var ErrNotFound = errors.New("no such object")

var _ Objects = (*Bucket)(nil)

// Object is what a listing tells of an object, or of a folder at the top.
type Object struct {
	Name   string
	Size   int64
	Time   time.Time // of the last change
	Folder bool
}

// Objects is what a store needs of its bucket. *Bucket is one; tests have others.
// A name that is not there is [ErrNotFound].
type Objects interface {
	Write(ctx context.Context, name string, fill func(io.Writer) error) error
	Put(ctx context.Context, name string, content []byte) error
	Read(ctx context.Context, name string, limit int64) (io.ReadCloser, int64, error)
	Stat(ctx context.Context, name string) (Object, error)
	Top(ctx context.Context, each func(Object) error) error
	List(ctx context.Context, prefix string, each func(Object) error) error
	Delete(ctx context.Context, name string) error
	Used(name string, at time.Time)
	Prune(ctx context.Context, before time.Time, ours func(folder string) bool) error
	Close() error
}

// Bucket is a folder or bucket with objects.
type Bucket struct {
	Kind string // file, s3, gs or mem
	Dir  string // of a folder: absolute, no links

	bucket  *blob.Bucket
	timeout time.Duration        // of a page of a listing
	sync    func(*os.File) error // before a file gets its name; replaced in tests
}

// address is what the URL of a store says (see the package comment).
type address struct {
	dir    string   // of a folder
	bucket *url.URL // of all others, without the path: drivers drop it silently
	prefix string
}

func parseAddress(a string) (p address, err error) {
	dir := a
	if !strings.HasPrefix(a, "/") {
		u, err := url.Parse(a)
		if err != nil {
			return p, fmt.Errorf("%.200q is no URL of a store", a)
		}
		switch u.Scheme {
		case fileblob.Scheme:
			switch {
			case u.Host != "" && u.Host != "localhost" || u.Opaque != "" || !strings.HasPrefix(u.Path, "/"):
				return p, fmt.Errorf("%.200q: want an absolute path, file:///dir", a)
			case u.RawQuery != "":
				return p, fmt.Errorf("%.200q: a file store takes no parameters", a)
			}
			dir = u.Path
		case "s3", "gs", "mem":
			if u.Host == "" && u.Scheme != "mem" {
				return p, fmt.Errorf("%.200q: want a bucket, %s://bucket", a, u.Scheme)
			}
			prefix := strings.Trim(u.Path, "/")
			u.Path, u.RawPath = "", ""
			return address{bucket: u, prefix: prefix}, nil
		default:
			return p, fmt.Errorf("%.200q: want an absolute path, file:///dir, s3://bucket, gs://bucket or mem://", a)
		}
	}
	if dir = filepath.Clean(dir); dir == "/" {
		return p, errors.New("the root of the file system is no place for a store")
	}
	return address{dir: dir}, nil
}

// Kind tells of what kind the store of a URL is: file, s3, gs or mem. It fails for what can
// be no URL of a store; nothing is opened.
func Kind(a string) (string, error) {
	p, err := parseAddress(a)
	switch {
	case err != nil:
		return "", err
	case p.bucket != nil:
		return p.bucket.Scheme, nil
	}
	return fileblob.Scheme, nil
}

// Below is the URL of a folder in the store of a URL. Who keeps his objects in one
// cannot meet what others have put beside it.
func Below(a, folder string) (string, error) {
	p, err := parseAddress(a)
	switch {
	case err != nil:
		return "", err
	case p.bucket == nil:
		return filepath.Join(p.dir, folder), nil
	}
	u := *p.bucket
	u.Path = "/" + folder
	if p.prefix != "" {
		u.Path = "/" + p.prefix + u.Path
	}
	return u.String(), nil
}

// Open opens the folder or bucket of a URL (see the package comment); create
// makes the folder. timeout bounds each page of a listing.
func Open(ctx context.Context, a string, create bool, timeout time.Duration) (*Bucket, error) {
	p, err := parseAddress(a)
	if err != nil {
		return nil, err
	}
	if p.bucket == nil {
		return openFolder(p.dir, create)
	}
	bucket, err := blob.OpenBucket(ctx, p.bucket.String())
	if err != nil {
		return nil, err
	}
	if p.prefix != "" {
		bucket = blob.PrefixedBucket(bucket, p.prefix+"/")
	}
	return &Bucket{Kind: p.bucket.Scheme, bucket: bucket, timeout: timeout}, nil
}

func openFolder(dir string, create bool) (*Bucket, error) {
	if create {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	if dir == "/" { // by a link
		return nil, errors.New("the root of the file system is no place for a store")
	}
	bucket, err := fileblob.OpenBucket(dir, &fileblob.Options{
		DirFileMode: 0o700,
		NoTempDir:   true, // a rename is atomic on one file system only
		Metadata:    fileblob.MetadataDontWrite,
	})
	if err != nil {
		return nil, err
	}
	return &Bucket{Kind: fileblob.Scheme, Dir: dir, bucket: bucket, sync: (*os.File).Sync}, nil
}

// Write stores what fill writes, whole or not at all. A file is synced before it
// gets its name; the folder is not, so a loss of power may lose it, never tear it.
func (s *Bucket) Write(ctx context.Context, name string, fill func(io.Writer) error) error {
	if s.Dir != "" {
		return writeFile(ctx, s.path(name), fill, s.sync)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := s.bucket.NewWriter(ctx, name, &blob.WriterOptions{
		ContentType: "application/octet-stream", // said, or the driver looks for it in the bytes
	})
	if err != nil {
		return err
	}
	if err := fill(w); err != nil {
		cancel() // makes Close give the write up
		_ = w.Close()
		return err
	}
	return w.Close()
}

// Put stores content, whole or not at all, and costs less than Write: a file is not
// synced. It is there from then on, also after a crash of this process. Until the system
// has written it down by itself, on Linux usually within half a minute, a loss of power may
// take it, or leave its name with other bytes: who reads it must check.
func (s *Bucket) Put(ctx context.Context, name string, content []byte) error {
	if s.Dir != "" {
		return writeFile(ctx, s.path(name), Writing(content), nil)
	}
	return s.Write(ctx, name, Writing(content))
}

// Read opens the first limit bytes of an object, all if limit is below 0, and
// tells the object's size.
func (s *Bucket) Read(ctx context.Context, name string, limit int64) (io.ReadCloser, int64, error) {
	r, err := s.bucket.NewRangeReader(ctx, name, 0, limit, nil)
	if err != nil {
		return nil, 0, known(err)
	}
	return r, r.Size(), nil
}

// Stat tells an object's size and time.
func (s *Bucket) Stat(ctx context.Context, name string) (Object, error) {
	a, err := s.bucket.Attributes(ctx, name)
	if err != nil {
		return Object{}, known(err)
	}
	return Object{Name: name, Size: a.Size, Time: a.ModTime}, nil
}

// Delete removes an object.
func (s *Bucket) Delete(ctx context.Context, name string) error {
	return known(s.bucket.Delete(ctx, name))
}

// Top lists what lies at the top: folders, named without their slash, and objects.
func (s *Bucket) Top(ctx context.Context, each func(Object) error) error {
	if s.Dir != "" {
		return s.top(ctx, each)
	}
	return s.pages(ctx, &blob.ListOptions{Delimiter: "/"}, each)
}

// List gives all objects whose name begins with prefix, which has a slash.
func (s *Bucket) List(ctx context.Context, prefix string, each func(Object) error) error {
	if s.Dir != "" {
		return s.walk(ctx, prefix, each)
	}
	return s.pages(ctx, &blob.ListOptions{Prefix: prefix}, each)
}

// PageSize is how many objects one call of a listing asks for.
const PageSize = 1000

func (s *Bucket) pages(ctx context.Context, o *blob.ListOptions, each func(Object) error) error {
	page := func(token []byte) ([]*blob.ListObject, []byte, error) {
		ctx, cancel := context.WithTimeout(ctx, s.timeout)
		defer cancel()
		return s.bucket.ListPage(ctx, token, PageSize, o)
	}
	for token := blob.FirstPageToken; len(token) > 0; {
		list, next, err := page(token)
		if err != nil {
			return err
		}
		for _, o := range list {
			if err := each(Object{Name: strings.TrimSuffix(o.Key, "/"), Size: o.Size, Time: o.ModTime, Folder: o.IsDir}); err != nil {
				return err
			}
		}
		token = next
	}
	return nil
}

// Close ends the use of the store.
func (s *Bucket) Close() error { return s.bucket.Close() }

// known maps the drivers' "not found" to ours.
func known(err error) error {
	if err != nil && gcerrors.Code(err) == gcerrors.NotFound {
		return ErrNotFound
	}
	return err
}
