package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"thoth/station/wire"
)

// LiquidOptions of a run that measures liquid memory. The run starts its servers
// itself, since it restarts them and compares settings.
type LiquidOptions struct {
	Entrypoint  string // program; host and station lie beside it
	Model       string // GGUF file
	PeerCommand string // shell command of another server, {port} in it; "" for none
	PeerPort    int    // what {port} becomes; default 18099
	EngineCmd   string // shell command that prints the bare engine's figures as JSON; "" for none
	Dir         string // where sockets and stores are made; default: the temporary folder

	Rounds       int           // default 5
	Tokens       int           // answer length; default 32
	Families     []string      // which of "engine", "reuse", "off", "tiers"; default all
	TierSettings []string      // NAME=VALUE of a server whose tiers are to be filled; default DefaultTierSettings
	StartTimeout time.Duration // until a server is ready; default 2 min
	Timeout      time.Duration // of one request; default 10 min

	Log io.Writer // progress; default: discarded

	idleWatch  time.Duration // how long the machine is watched before a measurement, 100 ms; shorter in tests
	switchWait time.Duration // from ready until liquid memory is on, 5 s; shorter in tests
}

// The families of cohorts: what shares its servers.
const (
	familyEngine = "engine"
	familyReuse  = "reuse"
	familyOff    = "off"
	familyTiers  = "tiers"
)

func (o *LiquidOptions) fill() error {
	for _, f := range []struct {
		name string
		path *string
	}{{"entrypoint", &o.Entrypoint}, {"model", &o.Model}} {
		if *f.path == "" {
			return fmt.Errorf("no %s: want the path of a file", f.name)
		}
		abs, err := filepath.Abs(*f.path)
		if err != nil {
			return err
		}
		if st, err := os.Stat(abs); err != nil || st.IsDir() {
			return fmt.Errorf("%s %q: want the path of a file", f.name, *f.path)
		}
		*f.path = abs
	}
	if o.PeerCommand != "" && !strings.Contains(o.PeerCommand, "{port}") {
		return fmt.Errorf("peer command %q: want {port} in it, where the server is to listen", o.PeerCommand)
	}
	for _, v := range []struct {
		name    string
		p       *int
		def, at int
	}{{"rounds", &o.Rounds, 5, 1000}, {"tokens", &o.Tokens, 32, 1000}, {"peer port", &o.PeerPort, 18099, 65535}} {
		if *v.p == 0 {
			*v.p = v.def
		}
		if *v.p < 1 || *v.p > v.at {
			return fmt.Errorf("%s %d: want 1 to %d", v.name, *v.p, v.at)
		}
	}
	if o.Tokens < 2 {
		return fmt.Errorf("tokens %d: want at least 2, since the first one is not decode", o.Tokens)
	}
	all := []string{familyEngine, familyReuse, familyOff, familyTiers}
	if len(o.Families) == 0 {
		o.Families = all
	}
	for _, f := range o.Families {
		if !slices.Contains(all, f) {
			return fmt.Errorf("cohorts %q: want one of %s", f, strings.Join(all, ", "))
		}
	}
	if len(o.TierSettings) == 0 {
		o.TierSettings = DefaultTierSettings
	}
	for _, kv := range o.TierSettings {
		if name, _, ok := strings.Cut(kv, "="); !ok || name == "" {
			return fmt.Errorf("tier setting %q: want NAME=VALUE", kv)
		}
	}
	for _, t := range []struct {
		name string
		p    *time.Duration
		def  time.Duration
	}{{"start timeout", &o.StartTimeout, 2 * time.Minute}, {"timeout", &o.Timeout, 10 * time.Minute},
		{"idle watch", &o.idleWatch, 100 * time.Millisecond}, {"wait for the switch", &o.switchWait, 5 * time.Second}} {
		if *t.p == 0 {
			*t.p = t.def
		}
		if *t.p < 0 {
			return fmt.Errorf("%s %s: want a positive time", t.name, *t.p)
		}
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	return nil
}

// liquidRun is one run of RunLiquid. It is used by one goroutine, and one request
// is under way at a time.
type liquidRun struct {
	o      LiquidOptions
	launch *launcher
	seed   uint64
	size   sizer

	data    map[string]*[2]map[metric]series // cohort -> side -> metric -> value a sample
	engine  map[string]series
	filled  *wire.KVIndex // the tiers of the tiers family, when full
	unquiet int
	changes []Change
	errs    []string
}

// RunLiquid measures and returns the report. The report is complete also with
// ErrBad, and what could be measured is in it also with another error.
func RunLiquid(ctx context.Context, o LiquidOptions) (rep *LiquidReport, err error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	r := &liquidRun{o: o, seed: rand.Uint64(), data: map[string]*[2]map[metric]series{}, engine: map[string]series{}}
	if r.launch, err = newLauncher(&r.o); err != nil {
		return nil, err
	}
	runtime.LockOSThread() // for endWithParent
	defer runtime.UnlockOSThread()
	// On every way out, a panic too: no server outlives the run.
	defer func() { err = errors.Join(err, r.launch.close()) }()
	began, before := time.Now(), readMachine()
	idle := idleCheck(ctx, 10*o.idleWatch)

	for _, f := range []struct {
		name string
		run  func(context.Context) error
	}{{familyEngine, r.bareEngine}, {familyReuse, r.reuse}, {familyOff, r.off}, {familyTiers, r.tiers}} {
		if !slices.Contains(o.Families, f.name) {
			continue
		}
		if err := f.run(ctx); err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			r.fail("%s: %v", f.name, err)
		}
	}
	rep = r.report()
	rep.Provenance = provenance(began, before, idle)
	rep.Provenance.Servers, rep.Provenance.Files = r.launch.seen, r.launch.files()
	rep.Provenance.EngineCmd, rep.Provenance.Store = o.EngineCmd, fileSystem(r.launch.dir)
	if r.unquiet > 0 {
		rep.Provenance.Warnings = append(rep.Provenance.Warnings,
			fmt.Sprintf("the machine did not become quiet before %d measurements", r.unquiet))
	}
	if len(rep.Errors) > 0 || failedByChange(rep.Changes) {
		return rep, ErrBad
	}
	return rep, nil
}

func (r *liquidRun) logf(format string, args ...any) { fmt.Fprintf(r.o.Log, format+"\n", args...) }

func (r *liquidRun) fail(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	r.errs = append(r.errs, s)
	r.logf("error: %s", s)
}

// calibrate learns the sizes of prompts, once, from the first server there is.
func (r *liquidRun) calibrate(ctx context.Context, in *instance) (err error) {
	if r.size.slope == 0 {
		r.size, err = measureSizer(ctx, in.server, r.seed)
	}
	return err
}

// bareEngine measures moves between RAM and the engine's cells, in every round,
// while no server runs.
func (r *liquidRun) bareEngine(ctx context.Context) error {
	if r.o.EngineCmd == "" {
		return nil
	}
	for round := range r.o.Rounds {
		r.logf("round %d of %d: engine alone", round+1, r.o.Rounds)
		figures, err := runEngine(ctx, r.o.EngineCmd)
		if err != nil {
			return err
		}
		for name, v := range figures {
			r.engine[name] = put(r.engine[name], round, v)
		}
	}
	return nil
}

// quiet waits until the machine is: what one server still does behind its last
// answer must not cost the next one.
func (r *liquidRun) quiet(ctx context.Context) {
	const busy, tries = 0.1, 50
	for range tries {
		if idleCheck(ctx, r.o.idleWatch) <= busy || ctx.Err() != nil {
			return
		}
	}
	r.unquiet++
}

// ask puts a greedy question whose answer is as long as all others.
func (r *liquidRun) ask(ctx context.Context, in *instance, q question) (*answer, error) {
	if q.maxTokens == 0 {
		q.maxTokens = r.o.Tokens
	}
	q.toTheCap = true
	return in.ask(ctx, q)
}

// note keeps an answer's figures as one sample of a cohort.
func (r *liquidRun) note(cohort string, side, sample int, a *answer) {
	f := figures{mTTFT: ms(a.first), mTokens: float64(a.promptTokens), mCached: float64(a.cachedTokens)}
	a.decode(f)
	r.put(cohort, side, sample, f)
}

func (r *liquidRun) put(cohort string, side, sample int, f figures) {
	d := r.data[cohort]
	if d == nil {
		d = &[2]map[metric]series{{}, {}}
		r.data[cohort] = d
	}
	for m, v := range f {
		d[side][m] = put(d[side][m], sample, v)
	}
}

// same compares a reused answer with the computed one. The peer's changes are
// reported only.
func (r *liquidRun) same(in *instance, round int, cohort, computed, reused string) {
	if computed != reused {
		r.changes = append(r.changes, Change{Server: in.name, Round: round + 1, Byte: parting(computed, reused),
			What: cohort + ": the answer differs from the computed one", first: in.name != peerName, cohort: cohort})
	}
}
