package stored

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"thoth/internal/bucket"
)

// opening is the reason while the first try to open the bucket goes on.
const opening = "it is being opened"

// State is what the store says of itself. What only admins may see where keys are in
// use is in Holdings: it tells what the clients of other keys do.
type State struct {
	State  string `json:"state"`            // on, off or failing
	Reason string `json:"reason,omitempty"` // why it is not on
	Store  string `json:"store,omitempty"`  // the kind of its bucket: file, s3, gs or mem

	Holdings `json:"-"`
}

// Holdings is what the store holds and has done. Bytes are as the budget counts them.
type Holdings struct {
	Records     int               `json:"records"`
	Bytes       int64             `json:"bytes"`
	BudgetBytes int64             `json:"budget_bytes"`
	Evictions   uint64            `json:"evictions"`       // for want of room
	Expired     uint64            `json:"expired"`         // at the end of their TTL
	Drops       map[string]uint64 `json:"drops,omitempty"` // damaged and stray objects, by reason
	Failures    uint64            `json:"failures"`        // calls that failed
}

// On tells whether responses are stored and found. A full disk still finds them, and is not on.
func (s State) On() bool { return s.State == "on" }

// State is the store's state at this moment, from memory.
func (s *Store) State() State {
	c := &s.counts
	st := State{State: "on", Store: s.kind(), Holdings: Holdings{BudgetBytes: s.o.BudgetBytes, Evictions: c.evictions.Load(), Expired: c.expired.Load(),
		Failures: s.reads.Count() + s.writes.Count()}}
	st.Records, st.Bytes = s.index.sums()
	c.mu.Lock()
	defer c.mu.Unlock()
	st.Drops = maps.Clone(c.drops)
	st.Failures += c.failures
	if c.isOffNow {
		st.State, st.Reason, st.BudgetBytes = "off", c.reason, 0
	} else if c.reason != "" {
		st.State, st.Reason = "failing", c.reason
	} else if why, open := s.reads.Open(); open {
		st.State, st.Reason = "failing", "reading: "+why
	} else if why, open := s.writes.Open(); open {
		st.State, st.Reason = "failing", "writing: "+why
	}
	return st
}

// kind is that of the bucket; "" when the store is off.
func (s *Store) kind() string {
	switch {
	case s.counts.isOff():
		return ""
	case s.o.Address == Auto:
		return "file"
	}
	kind, _ := bucket.Kind(s.o.Address) // checked by Open
	return kind
}

// counts are what the store has done, and why it is not open.
type counts struct {
	evictions atomic.Uint64
	expired   atomic.Uint64

	mu       sync.Mutex
	drops    map[string]uint64
	isOffNow bool
	reason   string // why it is off, or not open; "" when open
	failures uint64 // to open
}

func (c *counts) drop(reason fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drops == nil {
		c.drops = map[string]uint64{}
	}
	c.drops[string(reason)]++
}

func (c *counts) off(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isOffNow, c.reason = true, reason
}

func (c *counts) isOff() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isOffNow
}

// because notes why the bucket is not open, and tells whether that is news.
func (c *counts) because(reason string) (news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reason != "" && reason != opening {
		c.failures++
	}
	news, c.reason = reason != c.reason, reason
	return news
}

// The series of the store.
var (
	descOn       = prometheus.NewDesc("thoth_responses_store_on", "1 when responses are stored.", nil, nil)
	descRecords  = prometheus.NewDesc("thoth_responses_stored", "Responses in the store, as last seen.", nil, nil)
	descBytes    = prometheus.NewDesc("thoth_responses_stored_bytes", "Bytes of stored responses, as the budget counts them.", nil, nil)
	descBudget   = prometheus.NewDesc("thoth_responses_budget_bytes", "Bytes the store may hold.", nil, nil)
	descEvicted  = prometheus.NewDesc("thoth_responses_evictions_total", "Stored responses deleted for want of room.", nil, nil)
	descExpired  = prometheus.NewDesc("thoth_responses_expired_total", "Stored responses deleted at the end of their time.", nil, nil)
	descDrops    = prometheus.NewDesc("thoth_responses_drops_total", "Damaged and stray objects deleted from the store, by reason.", []string{"reason"}, nil)
	descFailures = prometheus.NewDesc("thoth_responses_failures_total", "Calls to the store that failed.", nil, nil)
)

var _ prometheus.Collector = (*Store)(nil)

// Describe implements prometheus.Collector.
func (s *Store) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descOn, descRecords, descBytes, descBudget, descEvicted, descExpired, descDrops, descFailures} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (s *Store) Collect(out chan<- prometheus.Metric) {
	st := s.State()
	number := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	on := 0.0
	if st.On() {
		on = 1
	}
	number(descOn, prometheus.GaugeValue, on)
	number(descRecords, prometheus.GaugeValue, float64(st.Records))
	number(descBytes, prometheus.GaugeValue, float64(st.Bytes))
	number(descBudget, prometheus.GaugeValue, float64(st.BudgetBytes))
	number(descEvicted, prometheus.CounterValue, float64(st.Evictions))
	number(descExpired, prometheus.CounterValue, float64(st.Expired))
	// All reasons from the start: a rate over a series that appears is wrong.
	for _, f := range []fault{faultFormat, faultVersion, faultChecksum, faultSealed, stray} {
		number(descDrops, prometheus.CounterValue, float64(st.Drops[string(f)]), string(f))
	}
	number(descFailures, prometheus.CounterValue, float64(st.Failures))
}
