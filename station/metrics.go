package station

import (
	"math"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"thoth/station/wire"
)

// counts only grow.
type counts struct {
	steps, promptTokens, decodedTokens  atomic.Uint64
	requests, cancelled, failed, aborts atomic.Uint64
	decodeFailures                      atomic.Uint64
}

// gauges are what the loop last published.
type gauges struct {
	running, waiting, swapped atomic.Int64
	swappedBytes              atomic.Int64
	used, dead                atomic.Int64
	compactions, swaps        atomic.Uint64
	dropped                   atomic.Uint64
	compactionNS              atomic.Int64
	perToken                  atomic.Uint64 // float64 bits
	kv                        atomic.Pointer[wire.KVIndex]
}

// tokenSeconds is what evaluating one prompt token takes, as last seen; a guess
// before the first.
func (g *gauges) tokenSeconds() float64 {
	if s := math.Float64frombits(g.perToken.Load()); s > 0 {
		return s
	}
	return 1.0 / 500
}

// lookWait bounds how long who looks at the loop's books waits for it: a step
// may take as long as a chunk of a prompt, and a frozen engine for ever.
const lookWait = time.Second

// look has the loop publish all its books now, so that who has had an answer
// finds it counted. A loop that does not come to it leaves its last word.
func (l *loop) look() {
	l.doWithin(func() {
		l.publish()
		l.publishKV()
	}, lookWait)
}

// publishKV tells what the loop knows of the KV index: work that only pays when
// somebody looks.
func (l *loop) publishKV() {
	if l.kvOff == "" {
		l.gauges.kv.Store(l.kvIndex())
	}
}

// publish tells the loop's books to readers on other goroutines.
func (l *loop) publish() {
	g, swapped := &l.gauges, 0
	for s := range l.sequences() {
		if s.away() {
			swapped++
		}
	}
	g.running.Store(int64(len(l.running)))
	g.waiting.Store(int64(len(l.waiting)))
	g.swapped.Store(int64(swapped))
	g.swappedBytes.Store(int64(l.pool.swappedBytes))
	g.used.Store(int64(l.pool.live()))
	g.dead.Store(int64(l.pool.dead()))
	g.compactions.Store(l.pool.compactions)
	g.compactionNS.Store(int64(l.pool.compactionTime))
	g.swaps.Store(l.pool.swaps)
	g.dropped.Store(l.pool.dropped)
	g.perToken.Store(math.Float64bits(l.pace.perToken))
}

func (st *Station) stats() wire.Stats {
	s := wire.Stats{Status: st.health().Status, UptimeSeconds: time.Since(st.started).Seconds(),
		Sessions: st.sessions.count(), RSSBytes: residentBytes(), Goroutines: runtime.NumGoroutine()}
	l := st.loop.Load()
	if l == nil {
		return s
	}
	l.look()
	n, g := &l.counts, &l.gauges
	s.Steps, s.PromptTokens, s.DecodedTokens = n.steps.Load(), n.promptTokens.Load(), n.decodedTokens.Load()
	s.Requests, s.Cancelled, s.Failed = n.requests.Load(), n.cancelled.Load(), n.failed.Load()
	s.DecodeFailures, s.Aborts = n.decodeFailures.Load(), n.aborts.Load()
	s.Compactions, s.Swaps, s.DroppedTokens = g.compactions.Load(), g.swaps.Load(), g.dropped.Load()
	s.CompactionMS = float64(g.compactionNS.Load()) / float64(time.Millisecond)
	st.texts.stats(&s)
	s.Running, s.Waiting, s.Swapped = int(g.running.Load()), int(g.waiting.Load()), int(g.swapped.Load())
	s.SwappedBytes = g.swappedBytes.Load()
	s.Cells, s.CellsUsed, s.CellsDead = l.info.Cells, int(g.used.Load()), int(g.dead.Load())
	s.Threads = l.info.Backend.Threads
	if l.kvOff == "" {
		s.KV = st.kvIndex(l)
		s.KV.Top = nil // who uses what is for those who may ask /kv-session
	}
	return s
}

// series is one of the numbers of /stats as Prometheus sees it: a counter where
// the name ends in _total, else a gauge.
type series struct {
	name, help string
	get        func(*wire.Stats) float64
}

var allSeries = []series{
	{"steps_total", "Batches decoded.", func(s *wire.Stats) float64 { return float64(s.Steps) }},
	{"prompt_tokens_total", "Prompt tokens evaluated.", func(s *wire.Stats) float64 { return float64(s.PromptTokens) }},
	{"decoded_tokens_total", "Tokens sampled.", func(s *wire.Stats) float64 { return float64(s.DecodedTokens) }},
	{"requests_total", "Calls taken by the loop.", func(s *wire.Stats) float64 { return float64(s.Requests) }},
	{"requests_cancelled_total", "Calls whose caller went away.", func(s *wire.Stats) float64 { return float64(s.Cancelled) }},
	{"requests_failed_total", "Calls that ended with an error.", func(s *wire.Stats) float64 { return float64(s.Failed) }},
	{"decode_failures_total", "Batches the engine failed on.", func(s *wire.Stats) float64 { return float64(s.DecodeFailures) }},
	{"aborts_total", "Decodes cut short because their only caller went away.", func(s *wire.Stats) float64 { return float64(s.Aborts) }},
	{"compactions_total", "Times the KV pool was compacted.", func(s *wire.Stats) float64 { return float64(s.Compactions) }},
	{"compaction_seconds_total", "Time spent compacting.", func(s *wire.Stats) float64 { return s.CompactionMS / 1000 }},
	{"swaps_total", "Sequences moved to RAM because the pool was full.", func(s *wire.Stats) float64 { return float64(s.Swaps) }},
	{"dropped_tokens_total", "Tokens evaluated again because their KV had to leave the pool and there was no room for it in RAM.", func(s *wire.Stats) float64 { return float64(s.DroppedTokens) }},
	{"embed_texts_total", "Texts whose vectors were made.", func(s *wire.Stats) float64 { return float64(s.EmbedTexts) }},
	{"embed_tokens_total", "Tokens evaluated for vectors.", func(s *wire.Stats) float64 { return float64(s.EmbedTokens) }},
	{"embed_failures_total", "Batches of texts the engine failed on.", func(s *wire.Stats) float64 { return float64(s.EmbedFailures) }},
	{"embed_waiting", "Requests for vectors that have not all of theirs.", func(s *wire.Stats) float64 { return float64(s.EmbedWaiting) }},
	{"running", "Calls in the batch.", func(s *wire.Stats) float64 { return float64(s.Running) }},
	{"waiting", "Calls waiting for a place.", func(s *wire.Stats) float64 { return float64(s.Waiting) }},
	{"swapped", "Sequences whose KV is in RAM until there is room.", func(s *wire.Stats) float64 { return float64(s.Swapped) }},
	{"swapped_bytes", "Bytes of that KV.", func(s *wire.Stats) float64 { return float64(s.SwappedBytes) }},
	{"sessions", "Staged sessions alive.", func(s *wire.Stats) float64 { return float64(s.Sessions) }},
	{"cells", "KV cells of the pool.", func(s *wire.Stats) float64 { return float64(s.Cells) }},
	{"cells_used", "KV cells of live sequences.", func(s *wire.Stats) float64 { return float64(s.CellsUsed) }},
	{"cells_dead", "KV cells of sequences that have left.", func(s *wire.Stats) float64 { return float64(s.CellsDead) }},
	{"threads", "Compute threads.", func(s *wire.Stats) float64 { return float64(s.Threads) }},
}

// collector gives all series of one look at the stats.
type collector struct {
	stats func() wire.Stats
	descs []*prometheus.Desc // of allSeries
}

func newCollector(stats func() wire.Stats) *collector {
	c := &collector{stats: stats}
	for _, s := range allSeries {
		c.descs = append(c.descs, prometheus.NewDesc("thoth_station_"+s.name, s.help, nil, nil))
	}
	return c
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	stats := c.stats()
	for i, s := range allSeries {
		kind := prometheus.GaugeValue
		if strings.HasSuffix(s.name, "_total") {
			kind = prometheus.CounterValue
		}
		ch <- prometheus.MustNewConstMetric(c.descs[i], kind, s.get(&stats))
	}
}

// metrics exposes the same numbers to Prometheus.
type metrics struct {
	registry    *prometheus.Registry
	stepSeconds prometheus.Histogram
}

func newMetrics(st *Station) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		stepSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "thoth_station", Name: "step_seconds",
			Help: "Time of one decode.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 14)}),
	}
	m.registry.MustRegister(newCollector(st.stats), kvCollector{st.KV}, m.stepSeconds, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// residentBytes is the process's resident memory, C's included; 0 where the
// system does not tell.
func residentBytes() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(f[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
