package liquid

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"thoth/station/client"
	"thoth/station/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kvStation answers every route with one status, but those it lacks with 404,
// and remembers the calls.
type kvStation struct {
	mu     sync.Mutex
	status int
	lacks  map[string]bool
	calls  []string
	client *client.Client
}

func newKVStation(t *testing.T, status int, lacks ...string) *kvStation {
	s := &kvStation{status: status, lacks: map[string]bool{}}
	for _, r := range lacks {
		s.lacks[r] = true
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls = append(s.calls, r.URL.Path+" "+r.Header.Get(wire.HeaderSessionID)+" "+r.Header.Get(wire.HeaderPrefixLength))
		if s.lacks[r.URL.Path] {
			http.NotFound(w, r)
			return
		}
		w.WriteHeader(s.status)
	}))
	t.Cleanup(srv.Close)
	var err error
	s.client, err = client.New(srv.URL, client.Options{})
	require.NoError(t, err)
	t.Cleanup(s.client.Close)
	return s
}

// took gives the calls since the last time.
func (s *kvStation) took() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

func (s *kvStation) set(status int, lacks ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.lacks = status, map[string]bool{}
	for _, r := range lacks {
		s.lacks[r] = true
	}
}

var cut = &wire.Model{KVCut: true}

func fresh(h wire.Health) Look { return Look{Health: &h, Model: cut, Fresh: true} }
func again(h wire.Health) Look { return Look{Health: &h, Model: cut} }

func TestSwitch_StaleStationWithoutTheRouteIsUnsupported(t *testing.T) {
	s := newKVStation(t, http.StatusOK, routeSave)
	g := newGate(true, s.client)
	require.NoError(t, g.look(t.Context(), fresh(wire.Health{})))
	require.Equal(t, State{Env: true, Reason: OffNoKV}, *g.state.Load())
	calls := s.took()
	require.Len(t, calls, 1, "nothing to delete")
	require.Contains(t, calls[0], "/kv-session/save thoth-probe-")
	require.Contains(t, calls[0], " 0")
}

func TestSwitch_AnyOtherAnswerToTheProbeIsSupportAndTheProbeIsDeleted(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusGone, http.StatusBadRequest, http.StatusInternalServerError} {
		s := newKVStation(t, status)
		g := newGate(true, s.client)
		require.NoError(t, g.look(t.Context(), fresh(wire.Health{})))
		require.Equal(t, State{LiquidMemory: true, Env: true, StationKVSession: true}, *g.state.Load())
		calls := s.took()
		require.Len(t, calls, 2)
		require.Contains(t, calls[1], "/kv-session/delete thoth-probe-")
		require.NoError(t, g.look(t.Context(), again(wire.Health{})))
		require.Empty(t, s.took(), "a station that can is not probed again")
	}
}

func TestSwitch_StaleStationIsProbedUntilACapableOneTakesItsPlace(t *testing.T) {
	s := newKVStation(t, http.StatusOK, routeSave)
	g := newGate(true, s.client)
	require.NoError(t, g.look(t.Context(), fresh(wire.Health{})))
	require.NoError(t, g.look(t.Context(), again(wire.Health{})))
	require.Len(t, s.took(), 2, "it may have been replaced between two looks")
	s.set(http.StatusOK)
	require.NoError(t, g.look(t.Context(), again(wire.Health{})))
	require.True(t, g.on())
}

func TestSwitch_AStationThatDoesNotAnswerIsAskedAgain(t *testing.T) {
	s := newKVStation(t, http.StatusServiceUnavailable)
	g := newGate(true, s.client)
	require.Error(t, g.look(t.Context(), fresh(wire.Health{})))
	require.Equal(t, State{Env: true, Reason: OffNoStation}, *g.state.Load())
	s.set(http.StatusOK)
	require.NoError(t, g.look(t.Context(), again(wire.Health{})))
	require.True(t, g.on())
}

func TestSwitch_A404InServiceTurnsItOffUntilTheRouteIsThere(t *testing.T) {
	yes := true
	says := wire.Health{KVSession: &yes, DecodeNext: &yes}
	for _, route := range []string{wire.RouteEmbed, wire.RouteForward, wire.RouteDecodeNext, routeLoad, routeSave} {
		t.Run(route, func(t *testing.T) {
			s := newKVStation(t, http.StatusGone, route)
			g := newGate(true, s.client)
			require.NoError(t, g.look(t.Context(), fresh(says)))
			require.True(t, g.on())
			require.Empty(t, s.took(), "/health is trusted")

			g.off(route)
			require.False(t, g.on())
			for _, l := range []Look{again(says), fresh(says)} {
				require.NoError(t, g.look(t.Context(), l))
				require.False(t, g.on(), "what /health says is not enough any more")
				require.Equal(t, OffRoute+route, g.state.Load().Reason)
				require.NotEmpty(t, s.took())
			}
			require.Equal(t, route == wire.RouteEmbed || route == wire.RouteForward || route == wire.RouteDecodeNext, g.state.Load().StationKVSession)
			s.set(http.StatusServiceUnavailable)
			require.Error(t, g.look(t.Context(), again(says)))
			require.False(t, g.on())
			s.set(http.StatusGone)
			require.NoError(t, g.look(t.Context(), again(says)))
			require.Equal(t, State{LiquidMemory: true, Env: true, StationKVSession: true}, *g.state.Load())
			s.took()
			require.NoError(t, g.look(t.Context(), again(says)))
			require.Empty(t, s.took(), "and then no more")
		})
	}
}

func TestSwitch_TrustsHealthAndNamesTheReason(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		env    bool
		health wire.Health
		model  *wire.Model
		want   State
	}{
		{false, wire.Health{KVSession: &yes}, cut, State{StationKVSession: true, Reason: OffSetting}},
		{true, wire.Health{KVSession: &no, KVReason: "self-test failed"}, cut, State{Env: true, Reason: OffNoKV + ": self-test failed"}},
		{true, wire.Health{KVSession: &yes, DecodeNext: &no}, cut, State{Env: true, StationKVSession: true, Reason: OffNoDecodeNext}},
		{true, wire.Health{KVSession: &yes, DecodeNext: &yes}, &wire.Model{KVCutReason: "recurrent"}, State{Env: true, StationKVSession: true, Reason: OffNoCut + ": recurrent"}},
		{true, wire.Health{KVSession: &yes, DecodeNext: &yes}, cut, State{LiquidMemory: true, Env: true, StationKVSession: true}},
	} {
		g := newGate(c.env, nil)
		require.NoError(t, g.look(t.Context(), Look{Health: &c.health, Model: c.model, Fresh: true}))
		require.Equal(t, c.want, *g.state.Load())
		require.Equal(t, c.want.LiquidMemory, g.on())
	}
	require.Equal(t, State{Reason: OffSetting}, *newGate(false, nil).state.Load())
	require.Equal(t, State{Env: true, Reason: OffNoStation}, *newGate(true, nil).state.Load())
}

func TestReason_EverySentenceIsOneOfAFixedList(t *testing.T) {
	for _, r := range []wire.KVReason{wire.KVNothing, wire.KVDiffers, wire.KVEnds, wire.KVEvicted, wire.KVExpired, wire.KVDamaged,
		wire.KVStoreSlow, wire.KVStoreFails, wire.KVLimit, wire.KVNoRoom, wire.KVUnnamed, wire.KVEngine} {
		require.NotEmpty(t, reasonOf(r).Sentence(), r)
	}
	require.Equal(t, "station kv session save failed", ReasonSave.Sentence())
	require.Equal(t, "no stored prefix", reasonOf(wire.KVNothing).Sentence())
	require.Equal(t, "prefix evicted", reasonOf(wire.KVEvicted).Sentence())
	require.Equal(t, "no stored prefix", reasonOf("a later station's").Sentence())
	require.Empty(t, reasonOf("").Sentence())
	require.Len(t, rank, 5)
}

func TestOutcome_AHitReachesPastTheHeadOfTheTemplate(t *testing.T) {
	const head = 24
	for _, c := range []struct {
		restored, prompt int
		want             bool
	}{
		{0, 36, false}, {24, 36, false}, {26, 36, false}, {31, 36, false},
		{35, 36, true}, {32, 36, true}, {32, 800, true}, {700, 718, true}, {0, 3, false}, {9, 12, true}, {7, 12, false},
	} {
		require.Equal(t, c.want, isHit(c.restored, c.prompt, head), "%d of %d", c.restored, c.prompt)
	}
}

func TestOutcome_ARequestGotWhatItsLeastLuckyChoiceGot(t *testing.T) {
	hit := &Outcome{Memory: Hit, Path: Liquid, PrefixTokens: 700, Tiers: wire.KVTiers{Hot: 700}, KVSaved: true, Durable: true, Written: 1, SavedTokens: 9, LoadMS: 2}
	miss := &Outcome{Memory: Miss, Path: Liquid, Reason: Reason(wire.KVNothing), DiffersAt: -1, KVSaved: true, Written: 700, SavedTokens: 710, LoadMS: 1}
	want := &Outcome{Memory: Miss, Path: Liquid, Reason: Reason(wire.KVNothing), DiffersAt: -1, KVSaved: true, Written: 701, SavedTokens: 719, LoadMS: 2}
	require.Equal(t, want, hit.Join(miss))
	require.Equal(t, want, miss.Join(hit))
	failed := &Outcome{Memory: CaptureFailed, Path: Native, Reason: ReasonSave}
	require.Equal(t, CaptureFailed, hit.Join(failed).Memory)
	require.Equal(t, Native, hit.Join(failed).Path)
	require.Equal(t, Native, failed.Join(hit).Path)
	require.False(t, hit.Join(failed).KVSaved)
	require.Empty(t, hit.MissReason())
	require.Equal(t, "no stored prefix", miss.MissReason())
}

// D01, D20: a scope is a hash of what clients sent.
func TestScope_FollowsTheKeyAndTheSaltNarrowsIt(t *testing.T) {
	require.Empty(t, Scope("", ""))
	all := []string{Scope("a", ""), Scope("b", ""), Scope("a", "s"), Scope("a", "t"), Scope("", "s"), Scope("", "as")}
	seen := map[string]bool{}
	for _, s := range all {
		require.Regexp(t, "^[0-9a-f]{64}$", s)
		require.False(t, seen[s], "no two share")
		seen[s] = true
	}
	require.Equal(t, Scope("a", "s"), Scope("a", "s"))
}

func TestParseWarm_NamesTheEntryAndTheField(t *testing.T) {
	good := `{"name":"support","messages":[{"role":"system","content":"Be kind."}],"pin":true,"ttl":"30m","key_sha256":"` + strings.ToUpper(Scope("a", "")) + `"}`
	p, err := parseWarm([]byte("[" + good + "]"))
	require.NoError(t, err)
	require.Equal(t, "support", p[0].Name)
	require.True(t, p[0].Pin)
	require.Equal(t, 30.0, p[0].TTL.Minutes())
	require.Equal(t, Scope("a", ""), p[0].KeySHA256, "hex in either case, as in the file of keys")
	require.JSONEq(t, `[{"role":"system","content":"Be kind."}]`, string(p[0].Messages))
	for body, want := range map[string]string{
		`{}`:                           "array",
		`[1]`:                          "entry 0",
		`[` + good + `,{"name":""}]`:   "entry 1: name",
		`[` + good + `,` + good + `]`:  `entry 1: name: "support" is there twice`,
		`[{"name":"a"}]`:               "entry 0: messages",
		`[{"name":"a","messages":[]}]`: "entry 0: messages",
		`[{"name":"a","messages":[{}],"ttl":"soon"}]`:     `entry 0: ttl: "soon"`,
		`[{"name":"a","messages":[{}],"ttl":"1ms"}]`:      "entry 0: ttl",
		`[{"name":"a","messages":[{}],"tll":"1h"}]`:       "tll",
		`[{"name":"a","messages":[{}],"key_sha256":"x"}]`: "entry 0: key_sha256",
	} {
		_, err := parseWarm([]byte(body))
		require.ErrorContains(t, err, want, body)
	}
	_, err = ReadWarm(t.TempDir() + "/none.json")
	require.ErrorContains(t, err, "none.json")
}

func TestPoint_CutsTheSegmentsAndLeavesTheRequestAlone(t *testing.T) {
	segments := []wire.Segment{{Text: "<s>", Special: true}, {Text: "hello"}, {Text: "</s>", Special: true}}
	require.Equal(t, []wire.Segment{{Text: "<s>", Special: true}, {Text: "he"}}, Point{1, 2}.cut(segments))
	require.Equal(t, "hello", segments[1].Text)
	require.Equal(t, segments[:2], Point{1, 99}.cut(segments))
	require.Equal(t, segments, Point{9, 1}.cut(segments))
	require.Equal(t, 2, common([]int32{1, 2, 3}, []int32{1, 2}))
	require.Equal(t, 1, common([]int32{1, 2, 3}, []int32{1, 3}))
}

func TestLedger_KeepsTheLastMissesAndIsBounded(t *testing.T) {
	l := newLedger()
	for i := range keptMisses + 3 {
		l.add(&Outcome{Memory: Miss, Reason: Reason(wire.KVDiffers), asked: i, DiffersAt: i}, 1, "r")
	}
	require.Nil(t, l.add(&Outcome{Memory: Hit, Reason: Reason(wire.KVEnds), asked: 100, PrefixTokens: 90, Tiers: wire.KVTiers{Hot: 1, Warm: 2, Cold: 87}}, 1, "r"), "a conversation that grows")
	require.Nil(t, l.add(&Outcome{Memory: Disabled, Reason: ReasonOff}, 1, "r"))
	require.NotNil(t, l.add(&Outcome{Memory: Hit, Reason: Reason(wire.KVEvicted), asked: 100, PrefixTokens: 50}, 1, "r"), "a hit that was cut short")
	c, last := l.snapshot()
	require.Len(t, last, keptMisses)
	require.Equal(t, "prefix evicted", last[0].Reason)
	require.Equal(t, keptMisses+2, last[1].DiffersAt)
	require.EqualValues(t, keptMisses+3, c.outcomes[Miss])
	require.EqualValues(t, keptMisses+3, c.reasons[Reason(wire.KVDiffers)])
	require.EqualValues(t, 87, c.tokens.Cold)
	require.EqualValues(t, 2, c.loads)
	b, err := json.Marshal(last[0].Shortfall)
	require.NoError(t, err)
	require.NotContains(t, string(b), "stored\":", "no text where none is known")
}
