package liquid

import "github.com/prometheus/client_golang/prometheus"

// The series of liquid memory at the host. The station has its own, of tiers.
var (
	descRequests = prometheus.NewDesc("thoth_liquid_requests_total", "Answers by what liquid memory did for them; each choice counts.", []string{"outcome"}, nil)
	descMisses   = prometheus.NewDesc("thoth_liquid_miss_total", "Answers that were not plain hits, by reason.", []string{"reason"}, nil)
	descTokens   = prometheus.NewDesc("thoth_liquid_tokens_total", "Prompt tokens asked for, restored by tier, and newly stored (answers included).", []string{"kind"}, nil)
	descMismatch = prometheus.NewDesc("thoth_liquid_mismatch_total", "Restored lengths that were not what the station said; above 0 is a fault.", nil, nil)
	descOn       = prometheus.NewDesc("thoth_liquid_on", "1 when liquid memory is effective.", nil, nil)
)

var _ prometheus.Collector = (*Manager)(nil)

// Describe implements prometheus.Collector.
func (m *Manager) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descRequests, descMisses, descTokens, descMismatch, descOn} {
		out <- d
	}
	m.tell.seconds.Describe(out)
}

// Collect implements prometheus.Collector.
func (m *Manager) Collect(out chan<- prometheus.Metric) {
	c, _ := m.tell.snapshot()
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	// All outcomes from the start: a rate over a series that appears is wrong.
	for memory := range rank {
		count(descRequests, c.outcomes[memory], string(memory))
	}
	for reason, n := range c.reasons {
		count(descMisses, n, string(reason))
	}
	t := c.tokens
	count(descTokens, t.Asked, "asked")
	count(descTokens, t.Hot, "hot")
	count(descTokens, t.Warm, "warm")
	count(descTokens, t.Cold, "cold")
	count(descTokens, t.Written, "written")
	count(descMismatch, c.mismatches)
	on := 0.0
	if m.gate.on() {
		on = 1
	}
	out <- prometheus.MustNewConstMetric(descOn, prometheus.GaugeValue, on)
	m.tell.seconds.Collect(out)
}
