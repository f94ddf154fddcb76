package station

import (
	"github.com/prometheus/client_golang/prometheus"

	"thoth/station/wire"
)

// kvCollector gives Prometheus the numbers of /kv-session, of one look at it.
type kvCollector struct{ index func() *wire.KVIndex }

// kvSeries is one number of the index; of a tier's when tier is set.
type kvSeries struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	whole func(*wire.KVIndex) float64
	tier  func(*wire.KVTier) float64
}

func kvNumber(name, help string, kind prometheus.ValueType, get func(*wire.KVIndex) float64) kvSeries {
	return kvSeries{desc: prometheus.NewDesc("thoth_station_kv_"+name, help, nil, nil), kind: kind, whole: get}
}

func kvTierNumber(name, help string, kind prometheus.ValueType, get func(*wire.KVTier) float64) kvSeries {
	return kvSeries{desc: prometheus.NewDesc("thoth_station_kv_"+name, help, []string{"tier"}, nil), kind: kind, tier: get}
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

var allKVSeries = []kvSeries{
	kvNumber("loads_total", "Loads of a session's prefix.", counter, func(x *wire.KVIndex) float64 { return float64(x.Loads) }),
	kvNumber("saves_total", "Saves of a session.", counter, func(x *wire.KVIndex) float64 { return float64(x.Saves) }),
	kvNumber("tokens_asked_total", "Tokens of the prompts that loads were asked for.", counter, func(x *wire.KVIndex) float64 { return float64(x.TokensAsked) }),
	kvNumber("tokens_written_total", "Tokens newly captured by saves.", counter, func(x *wire.KVIndex) float64 { return float64(x.TokensWritten) }),
	kvNumber("coalesced_total", "Loads that waited for another session's prefill and used it.", counter, func(x *wire.KVIndex) float64 { return float64(x.Coalesced) }),
	kvNumber("scattered_total", "Restores whose cells were not one run.", counter, func(x *wire.KVIndex) float64 { return float64(x.Scattered) }),
	kvNumber("export_seconds_total", "Time of copying rows out of the pool.", counter, func(x *wire.KVIndex) float64 { return x.ExportSeconds }),
	kvNumber("export_bytes_total", "Bytes copied out of the pool.", counter, func(x *wire.KVIndex) float64 { return float64(x.ExportBytes) }),
	kvNumber("import_seconds_total", "Time of copying rows into the pool.", counter, func(x *wire.KVIndex) float64 { return x.ImportSeconds }),
	kvNumber("import_bytes_total", "Bytes copied into the pool.", counter, func(x *wire.KVIndex) float64 { return float64(x.ImportBytes) }),
	kvNumber("pending", "Blocks captured whose rows are not copied yet.", gauge, func(x *wire.KVIndex) float64 { return float64(x.Pending) }),
	kvNumber("dirty", "Blocks in RAM that the cold store does not have.", gauge, func(x *wire.KVIndex) float64 { return float64(x.Dirty) }),
	kvNumber("dirty_bytes", "Their bytes.", gauge, func(x *wire.KVIndex) float64 { return float64(x.DirtyBytes) }),
	kvNumber("pinned", "Blocks held by a pin or a lifetime.", gauge, func(x *wire.KVIndex) float64 { return float64(x.Pinned) }),
	kvNumber("held_by_reader", "Blocks that a load is reading.", gauge, func(x *wire.KVIndex) float64 { return float64(x.HeldByReader) }),

	kvTierNumber("budget_bytes", "Bytes a tier may hold.", gauge, func(t *wire.KVTier) float64 { return float64(t.BudgetBytes) }),
	kvTierNumber("bytes", "Bytes a tier holds.", gauge, func(t *wire.KVTier) float64 { return float64(t.Bytes) }),
	kvTierNumber("usable_bytes", "Of them, bytes that this model can use.", gauge, func(t *wire.KVTier) float64 { return float64(t.UsableBytes) }),
	kvTierNumber("blocks", "Blocks of a tier; of hot, sequences.", gauge, func(t *wire.KVTier) float64 { return float64(t.Blocks) }),
	kvTierNumber("on", "1 when a tier works.", gauge, func(t *wire.KVTier) float64 {
		if t.State == "on" {
			return 1
		}
		return 0
	}),
	kvTierNumber("hits_total", "Loads that got tokens from a tier.", counter, func(t *wire.KVTier) float64 { return float64(t.Hits) }),
	kvTierNumber("hit_tokens_total", "Tokens that loads got from a tier.", counter, func(t *wire.KVTier) float64 { return float64(t.HitTokens) }),
	kvTierNumber("evictions_total", "Blocks pushed out by a tier's budget.", counter, func(t *wire.KVTier) float64 { return float64(t.Evictions) }),
	kvTierNumber("failures_total", "Reads and writes that failed or timed out.", counter, func(t *wire.KVTier) float64 { return float64(t.Failures) }),
	kvTierNumber("read_seconds_total", "Time of reading.", counter, func(t *wire.KVTier) float64 { return t.ReadSeconds }),
	kvTierNumber("read_bytes_total", "Bytes read.", counter, func(t *wire.KVTier) float64 { return float64(t.ReadBytes) }),
	kvTierNumber("write_seconds_total", "Time of writing.", counter, func(t *wire.KVTier) float64 { return t.WriteSeconds }),
	kvTierNumber("written_bytes_total", "Bytes written.", counter, func(t *wire.KVTier) float64 { return float64(t.WrittenBytes) }),
	kvTierNumber("verify_seconds_total", "Time of checking what was read.", counter, func(t *wire.KVTier) float64 { return t.VerifySeconds }),
}

var (
	kvDrops = prometheus.NewDesc("thoth_station_kv_drops_total", "Blocks dropped because a check failed.", []string{"tier", "reason"}, nil)
	kvShort = prometheus.NewDesc("thoth_station_kv_short_total", "Loads that restored less than the whole prefix, by reason.", []string{"reason"}, nil)
)

func (c kvCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, s := range allKVSeries {
		ch <- s.desc
	}
	ch <- kvDrops
	ch <- kvShort
}

func (c kvCollector) Collect(ch chan<- prometheus.Metric) {
	x := c.index()
	if x == nil {
		return
	}
	tiers := []struct {
		name string
		of   *wire.KVTier
	}{{"hot", &x.Hot}, {"warm", &x.Warm}, {"cold", &x.Cold}}
	for _, s := range allKVSeries {
		if s.whole != nil {
			ch <- prometheus.MustNewConstMetric(s.desc, s.kind, s.whole(x))
			continue
		}
		for _, t := range tiers {
			ch <- prometheus.MustNewConstMetric(s.desc, s.kind, s.tier(t.of), t.name)
		}
	}
	for _, t := range tiers {
		for reason, n := range t.of.Drops {
			ch <- prometheus.MustNewConstMetric(kvDrops, counter, float64(n), t.name, reason)
		}
	}
	for reason, n := range x.Short {
		ch <- prometheus.MustNewConstMetric(kvShort, counter, float64(n), reason)
	}
}

// KV is the index of a station that saves KV sessions, nil of another.
func (st *Station) KV() *wire.KVIndex {
	l := st.loop.Load()
	if l == nil || l.kvOff != "" {
		return nil
	}
	l.look()
	return st.kvIndex(l)
}
