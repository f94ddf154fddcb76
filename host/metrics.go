package host

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"thoth/host/openai"
)

// metrics are the host's numbers, in registries of their own so that two servers may
// live in one process. Those of sums have what all requests used: with keys in use
// the difference of two looks is what somebody else asked, so they are for admins.
type metrics struct {
	registry *prometheus.Registry
	sums     *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	queue    prometheus.Histogram
	ttft     prometheus.Histogram
	tokens   *prometheus.CounterVec
	errors   *prometheus.CounterVec
	lost     *prometheus.CounterVec // by why
	unforked prometheus.Counter

	// The same numbers for /stats.
	mu struct {
		sync.Mutex
		chats, prompt, completion uint64
		errors                    map[openai.Code]uint64
	}
}

// timeBuckets reach from a warm first token to a long prefill, in seconds.
var timeBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}

func newMetrics(a *admission, ready func() bool) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		sums:     prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "thoth_http_requests_total", Help: "Requests by route, method and status."}, []string{"route", "method", "status"}),
		seconds:  prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "thoth_http_request_seconds", Help: "Time to the end of the answer.", Buckets: timeBuckets}, []string{"route"}),
		queue:    prometheus.NewHistogram(prometheus.HistogramOpts{Name: "thoth_chat_queue_seconds", Help: "Time a chat waits for its place.", Buckets: timeBuckets}),
		ttft:     prometheus.NewHistogram(prometheus.HistogramOpts{Name: "thoth_chat_first_token_seconds", Help: "Time from a chat's arrival to its first token.", Buckets: timeBuckets}),
		tokens:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "thoth_tokens_total", Help: "Tokens of ended requests by kind: chats, completions, and the prompts of embeddings and rerankings."}, []string{"kind"}),
		errors:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "thoth_errors_total", Help: "Errors by code, those inside a stream included."}, []string{"code"}),
	}
	m.lost = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "thoth_responses_lost_total", Help: "Responses that were to be stored and could not be, by reason."}, []string{"reason"})
	for _, reason := range []string{lostTooLarge, lostNoRoom, lostFailed} {
		m.lost.WithLabelValues(reason) // from the start: a rate over a series that appears is wrong
	}
	m.unforked = prometheus.NewCounter(prometheus.CounterOpts{Name: "thoth_choices_unforked_total", Help: "Choices that did not share their prompt's prefill because the station cannot."})
	m.mu.errors = map[openai.Code]uint64{}
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f)
	}
	m.registry.MustRegister(m.requests, m.seconds, m.queue, m.ttft, m.errors, m.unforked,
		gauge("thoth_in_flight", "Answers in flight; each choice counts.", func() float64 { n, _ := a.counts(); return float64(n) }),
		gauge("thoth_waiting", "Requests waiting for a place.", func() float64 { _, n := a.counts(); return float64(n) }),
		gauge("thoth_ready", "1 when chats are served.", func() float64 {
			if ready() {
				return 1
			}
			return 0
		}),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.sums.MustRegister(m.tokens, m.lost)
	return m
}

// request counts one that has ended.
func (m *metrics) request(route, method string, status int, total time.Duration, rec *record) {
	m.requests.WithLabelValues(route, knownMethod(method), strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(total.Seconds())
	m.ended(route, rec)
}

// ended counts what a request, or a background response, came to.
func (m *metrics) ended(route string, rec *record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if rec.err != nil {
		m.errors.WithLabelValues(string(rec.err.Code)).Inc()
		m.mu.errors[rec.err.Code]++
	}
	if rec.model == "" {
		return
	}
	if !writesNothing(route) {
		m.mu.chats++
	}
	m.mu.prompt += uint64(rec.usage.PromptTokens)
	m.mu.completion += uint64(rec.usage.CompletionTokens)
	m.tokens.WithLabelValues("prompt").Add(float64(rec.usage.PromptTokens))
	m.tokens.WithLabelValues("completion").Add(float64(rec.usage.CompletionTokens))
	if rec.ttft > 0 {
		m.queue.Observe(rec.queue.Seconds())
		m.ttft.Observe(rec.ttft.Seconds())
	}
}

// stats fills the host's part of /stats, with sums where the caller may see them.
func (m *metrics) stats(out *hostStats, sums bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if sums {
		chats, prompt, completion := m.mu.chats, m.mu.prompt, m.mu.completion
		out.Host.Chats, out.Host.PromptTokens, out.Host.CompletionTokens = &chats, &prompt, &completion
	}
	out.Host.Errors = make(map[string]uint64, len(m.mu.errors))
	for code, n := range m.mu.errors {
		out.Host.Errors[string(code)] = n
	}
}

// knownMethod keeps a client's invented method from becoming a label.
func knownMethod(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	}
	return "other"
}
