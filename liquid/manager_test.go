package liquid

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"thoth/station/client"
	"thoth/station/stationtest"
	"thoth/station/wire"
)

func TestWarm_PromptsAreStoredWheneverAStationComesUp(t *testing.T) {
	system := long("You know the river.", 200)
	messages, err := json.Marshal([]map[string]string{{"role": "system", "content": system}})
	require.NoError(t, err)
	g := newRig(t, stationtest.Options{}, func(o *Options) {
		o.Warm = []WarmPrompt{{Name: "guide", Messages: messages, Pin: true, TTL: time.Hour}, {Name: "broken", Messages: json.RawMessage(`[1]`)}}
		o.Scopes = func(*WarmPrompt) []string { return []string{"a", "b"} }
	})
	settled := func() bool {
		s := g.Report(t.Context()).Warm
		return s[0].State == "stored" && s[1].State == "failed"
	}
	g.eventually(settled)
	s := g.Report(t.Context())
	require.Equal(t, 2, s.Warm[0].Scopes)
	require.Greater(t, s.Warm[0].Tokens, 200)
	require.NotEmpty(t, s.Warm[1].Reason)
	require.Positive(t, s.HeadTokens)
	require.Less(t, s.HeadTokens, headGuess, "measured: this template has a short head")
	_, bodies := saves(t, g)
	require.Equal(t, wire.KVSaveRequest{Scope: "a", Name: "guide", Pin: true, TTLSeconds: 3600, Release: true}, bodies[0])
	require.Equal(t, "b", bodies[1].Scope)
	g.noSessions()

	segments, err := chatml(json.RawMessage(`[{"role":"system","content":` + strconv.Quote(system) + `},{"role":"user","content":"hello"}]`))
	require.NoError(t, err)
	q := ask("", 4)
	q.Generate.Prompt.Segments, q.Scope = segments, "b"
	r := g.run(q)
	require.Equal(t, Hit, r.outcome.Memory)
	require.Greater(t, r.outcome.PrefixTokens, 190)
	q.Scope = "c"
	require.Equal(t, Miss, g.run(q).outcome.Memory)

	g.took("")
	g.look(false)
	require.Empty(t, g.took(wire.RouteEmbed), "once for each station")
	g.look(true)
	g.eventually(func() bool { return len(g.took(routeSave)) > 0 })
}

func TestManager_CloseEndsWhatHangs(t *testing.T) {
	messages := json.RawMessage(`[{"role":"system","content":"hello"}]`)
	g := newRig(t, stationtest.Options{}, func(o *Options) {
		o.CloseWait = time.Millisecond
		o.Warm = []WarmPrompt{{Name: "a", Messages: messages}}
	})
	g.fault(routeSave, hang)
	g.fault(wire.RouteKVSession+"/"+wire.VerbDelete, hang)
	g.look(true)
	g.eventually(func() bool { return len(g.took(routeSave)) > 0 })
	g.Manager.Close()
	require.Equal(t, "waiting", g.Report(t.Context()).Warm[0].State)
}

func TestManager_ReportShowsWhereAPromptDiffers(t *testing.T) {
	g := newRig(t, stationtest.Options{}, func(o *Options) { o.Log = o.Log.Level(zerolog.DebugLevel) })
	g.run(ask(long("A", 100)+" hello and of the river", 4))
	ctx := client.WithRequestID(t.Context(), "req-7")
	r, err := g.open(ctx, ask(long("A", 100)+" world and of the river", 4))
	require.NoError(t, err)
	require.Equal(t, Hit, r.outcome.Memory)
	require.Equal(t, Reason(wire.KVDiffers), r.outcome.Reason)
	require.Equal(t, r.outcome.PrefixTokens, r.outcome.DiffersAt)

	last := g.Report(t.Context()).Misses[0]
	require.Equal(t, "req-7", last.RequestID)
	require.Equal(t, r.outcome.DiffersAt, last.DiffersAt)
	require.Equal(t, " world", *last.Prompt)
	require.Equal(t, " hello", *last.Stored)
	g.took("")
	require.Equal(t, " world", *g.Report(t.Context()).Misses[0].Prompt)
	require.Empty(t, g.took(wire.RouteDetokenize), "asked for once")
	g.eventually(func() bool { return strings.Contains(g.logs.String(), `"prompt":" world","stored":" hello"`) })
}

func TestManager_MetricsCountOutcomesAndTokens(t *testing.T) {
	g := newRig(t, stationtest.Options{})
	q := ask(long("A", 100), 4)
	n := g.run(q).done.PromptTokens
	g.run(q)
	g.fresh(q)
	reg := prometheus.NewRegistry()
	require.NoError(t, reg.Register(g.Manager))
	page := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{`thoth_liquid_requests_total{outcome="bypass"} 1`, `thoth_liquid_requests_total{outcome="capture_failed"} 0`,
		`thoth_liquid_requests_total{outcome="hit"} 1`, `thoth_liquid_requests_total{outcome="miss"} 1`, `thoth_liquid_miss_total{reason="bypassed"} 1`,
		`thoth_liquid_miss_total{reason="nothing_stored"} 1`, fmt.Sprintf(`thoth_liquid_tokens_total{kind="asked"} %d`, 2*n),
		`thoth_liquid_load_seconds_count 1`, `thoth_liquid_on 1`, `thoth_liquid_mismatch_total 0`} {
		require.Contains(t, page.Body.String(), want+"\n")
	}
	c, _ := g.tell.snapshot()
	require.EqualValues(t, 2*n, c.tokens.Asked)
	require.EqualValues(t, n-1, c.tokens.Hot+c.tokens.Warm+c.tokens.Cold)
	require.GreaterOrEqual(t, c.tokens.Written, uint64(n))
}

func TestOptions_AreChecked(t *testing.T) {
	_, err := New(Options{})
	require.Error(t, err)
	c, err := client.New("http://127.0.0.1:1", client.Options{})
	require.NoError(t, err)
	_, err = New(Options{Station: c, SaveWait: -1})
	require.ErrorContains(t, err, "save wait")
}
