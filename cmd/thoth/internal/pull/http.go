package pull

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	maxRedirects  = 10
	maxRetryAfter = time.Minute
	// progressBytes is how much an attempt must bring to count as progress; less
	// would let a server that sends a byte and hangs up keep us for ever.
	progressBytes = 64 << 10
)

// newClient makes a client that keeps a token on its own host and never steps
// down from https.
func newClient(o Options) *http.Client {
	tr := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: min(o.StallTimeout, 15*time.Second)}).DialContext,
		TLSHandshakeTimeout:   min(o.StallTimeout, 15*time.Second),
		ResponseHeaderTimeout: o.StallTimeout,
		ForceAttemptHTTP2:     true,
		// A compressed answer has no byte ranges of the file.
		DisableCompression: true,
	}
	return &http.Client{Transport: tr, CheckRedirect: checkRedirect}
}

func checkRedirect(req *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) >= maxRedirects {
		return permanent(errors.New("too many redirects"))
	}
	if first.URL.Scheme == "https" && req.URL.Scheme != "https" {
		return permanent(fmt.Errorf("redirected from https to %s; refused", req.URL.Scheme))
	}
	// net/http would keep the header for subdomains and other ports.
	if req.URL.Host != first.URL.Host || req.URL.Scheme != first.URL.Scheme {
		req.Header.Del("Authorization")
	}
	if n, ok := first.Context().Value(linkedKey{}).(*linked); ok {
		n.note(req.Response)
	}
	return nil
}

// linked is the digest that Hugging Face names in the answer that redirects to
// its storage; it makes every pull from there a checked one.
type linked struct{ sha256 string }

type linkedKey struct{}

func (l *linked) note(resp *http.Response) {
	if resp == nil {
		return
	}
	if sum := strings.ToLower(strings.Trim(resp.Header.Get("X-Linked-Etag"), `"`)); hexDigest.MatchString(sum) {
		l.sha256 = sum
	}
}

// fetchHTTP downloads one file, resuming as often as it takes while there is
// progress.
func (p *puller) fetchHTTP(ctx context.Context, s *Spec, file string) error {
	d, err := p.openDownload(ctx, s, file)
	if err != nil {
		return err
	}
	defer d.close()
	budget := newBudget(p.o)
	_, err = backoff.Retry(ctx, func() (struct{}, error) {
		before := d.have
		err := d.attempt(ctx)
		if d.have-before >= progressBytes {
			budget.Reset()
		}
		var w *waitError
		if errors.As(err, &w) {
			budget.atLeast = w.wait
		}
		return struct{}{}, err
	}, backoff.WithBackOff(budget), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, wait time.Duration) {
		p.o.Progress.Note("%v; trying again in %s", err, wait.Round(100*time.Millisecond))
	}))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("fetch %s: %w", s.Text, err)
	}
	sum := d.sum()
	if err := d.close(); err != nil {
		return err
	}
	want := s.SHA256
	if want == "" {
		want = d.state.SHA256
		s.SHA256 = want // for the sentence of a mismatch
	}
	return p.settle(s, d.path, file, sum, want)
}

// budget is exponential back-off that ends after a number of attempts without
// progress; Reset is called on progress.
type budget struct {
	*backoff.ExponentialBackOff
	tries, left int
	atLeast     time.Duration // what the server asked for, once
}

func newBudget(o Options) *budget {
	b := &budget{ExponentialBackOff: backoff.NewExponentialBackOff(), tries: o.Tries}
	b.InitialInterval = o.retryWait
	b.MaxInterval = 60 * o.retryWait
	b.Multiplier = 2
	b.Reset()
	return b
}

func (b *budget) Reset() {
	b.left = b.tries
	b.ExponentialBackOff.Reset()
}

func (b *budget) NextBackOff() time.Duration {
	b.left--
	if b.left <= 0 {
		return backoff.Stop
	}
	wait := max(b.atLeast, b.ExponentialBackOff.NextBackOff())
	b.atLeast = 0
	return wait
}

func permanent(err error) error { return backoff.Permanent(err) }

// transportError makes a sentence of a failed request, without the URL: a
// redirect's may hold a signature.
func transportError(err error, host string) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var cert *tls.CertificateVerificationError
	if errors.As(err, &cert) {
		return permanent(fmt.Errorf("%s: %w", host, err))
	}
	return fmt.Errorf("%s: %w", host, err)
}

// statusError says what an answer other than 200 and 206 means for the operator.
func statusError(s *Spec, resp *http.Response, token bool) error {
	host := resp.Request.URL.Host
	switch code := resp.StatusCode; {
	case (code == http.StatusUnauthorized || code == http.StatusForbidden) && s.Kind == KindHF && token:
		return permanent(fmt.Errorf("%s refuses %s/%s (%d) to this HF_TOKEN: ask for access on the model's page with the token's account, or check that file and repository exist", host, s.Owner, s.Repo, code))
	case (code == http.StatusUnauthorized || code == http.StatusForbidden) && s.Kind == KindHF:
		return permanent(fmt.Errorf("%s refuses %s/%s (%d): the repository is gated, private or does not exist; accept its terms on the model's page and set HF_TOKEN", host, s.Owner, s.Repo, code))
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return permanent(fmt.Errorf("%s refuses this file (%d): it needs a login, or the link has expired", host, code))
	case (code == http.StatusNotFound || code == http.StatusGone) && s.Kind == KindHF:
		return permanent(fmt.Errorf("%s has no file %s in %s/%s at revision %s (%d); names are case-sensitive", host, s.File, s.Owner, s.Repo, s.Revision, code))
	case code == http.StatusNotFound || code == http.StatusGone:
		return permanent(fmt.Errorf("%s has no such file (%d)", host, code))
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		err := fmt.Errorf("%s is busy (%d)", host, code)
		if wait, ok := retryAfter(resp); ok {
			return &waitError{err: err, wait: wait}
		}
		return err
	case code >= 500 || code == http.StatusRequestTimeout:
		return fmt.Errorf("%s failed (%s)", host, resp.Status)
	}
	return permanent(fmt.Errorf("%s answered %s", host, resp.Status))
}

func retryAfter(resp *http.Response) (time.Duration, bool) {
	n, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || n < 0 {
		return 0, false
	}
	return min(time.Duration(n)*time.Second, maxRetryAfter), true
}

// waitError asks for a wait of its own before the next attempt. It is not the
// library's RetryAfter, which forgets how many attempts there were.
type waitError struct {
	err  error
	wait time.Duration
}

func (e *waitError) Error() string { return e.err.Error() }
func (e *waitError) Unwrap() error { return e.err }
