package host

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// What each key has used, for /stats and /metrics. A key sees its own numbers,
// an admin those of all.

// keyStats are one key's numbers in /stats.
type keyStats struct {
	Name   string     `json:"name"`
	Scopes []KeyScope `json:"scopes"`
	keyCount
	RequestsPerMinute  *keyRate `json:"requests_per_minute"` // null: no limit
	TokensPerMinute    *keyRate `json:"tokens_per_minute"`
	ConcurrentRequests *int     `json:"concurrent_requests"` // most at once
}

// keyRate is a limit per minute and what is left of it now.
type keyRate struct {
	Limit     int `json:"limit"`
	Remaining int `json:"remaining"`
}

// stats are the numbers of the keys that the caller may see; nil without keys.
func (r keyring) stats(caller *apiKey, now time.Time) []keyStats {
	var all []keyStats
	for _, k := range r {
		if k != caller && !caller.may(ScopeAdmin) {
			continue
		}
		count, requests, tokens := k.quota.used(now)
		s := keyStats{Name: k.Name, Scopes: k.Scopes, keyCount: count}
		if requests != nil {
			s.RequestsPerMinute = &keyRate{k.Limits.RequestsPerMinute, *requests}
		}
		if tokens != nil {
			s.TokensPerMinute = &keyRate{k.Limits.TokensPerMinute, *tokens}
		}
		if most := k.Limits.ConcurrentRequests; most > 0 {
			s.ConcurrentRequests = &most
		}
		all = append(all, s)
	}
	return all
}

// The metrics of keys.
var (
	descKeyRequests = prometheus.NewDesc("thoth_key_requests_total", "Requests of each key that its limits let in.", []string{"key"}, nil)
	descKeyLimited  = prometheus.NewDesc("thoth_key_limited_total", "Requests of each key that its limits refused.", []string{"key"}, nil)
	descKeyTokens   = prometheus.NewDesc("thoth_key_tokens_total", "Tokens of each key's ended requests by kind.", []string{"key", "kind"}, nil)
	descKeyInFlight = prometheus.NewDesc("thoth_key_in_flight", "Requests of each key in flight.", []string{"key"}, nil)
)

var _ prometheus.Collector = keyring(nil)

// Describe implements prometheus.Collector.
func (r keyring) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(r, out) }

// Collect implements prometheus.Collector.
func (r keyring) Collect(out chan<- prometheus.Metric) {
	for _, k := range r {
		n, _, _ := k.quota.used(time.Now())
		out <- prometheus.MustNewConstMetric(descKeyRequests, prometheus.CounterValue, float64(n.Requests), k.Name)
		out <- prometheus.MustNewConstMetric(descKeyLimited, prometheus.CounterValue, float64(n.Limited), k.Name)
		out <- prometheus.MustNewConstMetric(descKeyTokens, prometheus.CounterValue, float64(n.PromptTokens), k.Name, "prompt")
		out <- prometheus.MustNewConstMetric(descKeyTokens, prometheus.CounterValue, float64(n.CompletionTokens), k.Name, "completion")
		out <- prometheus.MustNewConstMetric(descKeyInFlight, prometheus.GaugeValue, float64(n.InFlight), k.Name)
	}
}

// seesAll tells whether a caller may see numbers that tell what the clients of
// other keys do. Where no keys are in use everybody may.
func (s *Server) seesAll(r *http.Request) bool {
	return !s.keys.used() || callerOf(r.Context()).may(ScopeAdmin)
}

// getMetrics is GET /metrics.
func (s *Server) getMetrics() http.HandlerFunc {
	common := promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{Registry: s.metrics.registry})
	all := promhttp.HandlerFor(prometheus.Gatherers{s.metrics.registry, s.metrics.sums}, promhttp.HandlerOpts{Registry: s.metrics.registry})
	return func(w http.ResponseWriter, r *http.Request) {
		if s.seesAll(r) {
			all.ServeHTTP(w, r)
			return
		}
		common.ServeHTTP(w, r)
	}
}
