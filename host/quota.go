package host

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"thoth/host/openai"
)

// quota holds one key to its limits. The two rates are buckets that hold one
// minute's worth and fill evenly: after a pause a key may send so much at once.
//
// What a request costs in tokens is known when it has ended. So it is let in
// while the bucket is not empty, and its cost may leave a debt, which fills up
// before the next one is let in.
type quota struct {
	limits KeyLimits

	mu struct {
		sync.Mutex
		requests, tokens *rate.Limiter // nil: no limit
		count            keyCount
	}
}

// keyCount is what a key has used since the start.
type keyCount struct {
	InFlight         int    `json:"in_flight"`
	Requests         uint64 `json:"requests"` // let in
	Limited          uint64 `json:"limited"`  // refused by a limit of the key
	PromptTokens     uint64 `json:"prompt_tokens"`
	CompletionTokens uint64 `json:"completion_tokens"`
}

func newQuota(l KeyLimits) *quota {
	q := &quota{limits: l}
	q.mu.requests, q.mu.tokens = perMinute(l.RequestsPerMinute), perMinute(l.TokensPerMinute)
	return q
}

func perMinute(n int) *rate.Limiter {
	if n == 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(float64(n)/60), n)
}

// enter lets a request in, or says which limit is in the way. Who is let in
// must leave.
func (q *quota) enter(now time.Time) *openai.Error {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.refusal(now)
	if e != nil {
		q.mu.count.Limited++
		return e
	}
	if q.mu.requests != nil {
		q.mu.requests.AllowN(now, 1)
	}
	q.mu.count.Requests++
	q.mu.count.InFlight++
	return nil
}

// refusal is called with mu held. What waits for an answer is looked at first:
// its end may come any time, a bucket fills slowly.
func (q *quota) refusal(now time.Time) *openai.Error {
	if most := q.limits.ConcurrentRequests; most > 0 && q.mu.count.InFlight >= most {
		return openai.NewError(openai.CodeRateLimit, "", "concurrent requests: this key may have %d in flight, and %d are", most, q.mu.count.InFlight).Retry(time.Second)
	}
	if wait := until(q.mu.requests, 1, now); wait > 0 {
		return openai.NewError(openai.CodeRateLimit, "", "requests per minute: this key may send %d, and the next one in %s", q.limits.RequestsPerMinute, upToMillis(wait)).Retry(wait)
	}
	if wait := until(q.mu.tokens, 1, now); wait > 0 {
		return openai.NewError(openai.CodeRateLimit, "", "tokens per minute: this key may use %d in prompts and answers, and has used them: the next request may be sent in %s",
			q.limits.TokensPerMinute, upToMillis(wait)).Retry(wait)
	}
	return nil
}

// leave ends a request and charges what it has used.
func (q *quota) leave(now time.Time, prompt, completion int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.count.InFlight--
	q.mu.count.PromptTokens += uint64(prompt)
	q.mu.count.CompletionTokens += uint64(completion)
	if q.mu.tokens == nil {
		return
	}
	// A reservation is at most the whole bucket; a request may cost more.
	for left := prompt + completion; left > 0; left -= q.mu.tokens.Burst() {
		q.mu.tokens.ReserveN(now, min(left, q.mu.tokens.Burst()))
	}
}

// Headers by which OpenAI's clients learn of limits.
const (
	headerLimit     = "X-Ratelimit-Limit-"
	headerRemaining = "X-Ratelimit-Remaining-"
	headerReset     = "X-Ratelimit-Reset-"
)

// tell sets the headers of the two rates: the limit, what is left of it, and the
// time until all of it is there again.
func (q *quota) tell(h http.Header, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for name, l := range map[string]*rate.Limiter{"Requests": q.mu.requests, "Tokens": q.mu.tokens} {
		if l == nil {
			continue
		}
		h.Set(headerLimit+name, strconv.Itoa(l.Burst()))
		h.Set(headerRemaining+name, strconv.Itoa(remaining(l, now)))
		h.Set(headerReset+name, upToMillis(until(l, float64(l.Burst()), now)).String())
	}
}

// used is what the key has used, and what is left of its rates; nil for those
// without a limit.
func (q *quota) used(now time.Time) (count keyCount, requests, tokens *int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := func(l *rate.Limiter) *int {
		if l == nil {
			return nil
		}
		n := remaining(l, now)
		return &n
	}
	return q.mu.count, left(q.mu.requests), left(q.mu.tokens)
}

func remaining(l *rate.Limiter, now time.Time) int { return max(0, int(math.Floor(l.TokensAt(now)))) }

// until is the time until a bucket holds level; 0 for none and for one that does.
func until(l *rate.Limiter, level float64, now time.Time) time.Duration {
	if l == nil {
		return 0
	}
	missing := level - l.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(math.Ceil(missing / float64(l.Limit()) * float64(time.Second)))
}

// upToMillis rounds up: who comes back after it must not be early.
func upToMillis(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}
