package liquid

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"thoth/station/client"
	"thoth/station/wire"
)

// Options of a Manager. Station is needed; zero values mean the default.
type Options struct {
	Enabled bool           // the setting THOTH_LIQUID_MEMORY
	Station *client.Client // the station to keep with
	Warm    []WarmPrompt   // stored whenever a station comes up
	Scopes  func(*WarmPrompt) []string
	Suspect func() // called when the station is not what it was: look soon
	Log     zerolog.Logger

	LoadWait    time.Duration // of one load for another's prefill and for a place; default 9 min
	SaveTimeout time.Duration // of one save or delete; default 5 s
	SaveWait    time.Duration // of an answer's end for the prompt's save; default 1 s
	CloseWait   time.Duration // of Close for what is under way; default 1 s
}

func (o Options) withDefaults() (Options, error) {
	if o.Station == nil {
		return o, errors.New("liquid: no station client given")
	}
	if o.Suspect == nil {
		o.Suspect = func() {}
	}
	if o.Scopes == nil {
		o.Scopes = func(*WarmPrompt) []string { return []string{""} }
	}
	for _, t := range []struct {
		name string
		v    *time.Duration
		d    time.Duration
	}{
		{"load wait", &o.LoadWait, 9 * time.Minute},
		{"save timeout", &o.SaveTimeout, 5 * time.Second},
		{"save wait", &o.SaveWait, time.Second}, // a station answers between two steps, half a second each while prompts alone are computed
		{"close wait", &o.CloseWait, time.Second},
	} {
		if *t.v < 0 {
			return o, fmt.Errorf("liquid: the %s is %s: it must be above 0", t.name, *t.v)
		}
		if *t.v == 0 {
			*t.v = t.d
		}
	}
	return o, nil
}

// Render makes the prompt of a JSON array of OpenAI messages.
type Render func(messages json.RawMessage) ([]wire.Segment, error)

// Manager is liquid memory for one station. Its life: New, any number of Look
// and Open, Close.
type Manager struct {
	o    Options
	gate *gate
	head atomic.Int64 // tokens all conversations of this template begin with
	tell *ledger
	warm *warmer

	// What runs behind requests ends with ctx.
	ctx    context.Context
	cancel context.CancelFunc
	tasks  struct {
		sync.Mutex
		sync.WaitGroup
		closed bool
	}
}

// New makes a manager; nothing runs before the first look.
func New(o Options) (*Manager, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &Manager{o: o, gate: newGate(o.Enabled, o.Station), tell: newLedger()}
	m.head.Store(headGuess)
	m.warm = newWarmer(m)
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m, nil
}

// State is the switch now.
func (m *Manager) State() State { return *m.gate.state.Load() }

// On tells whether the switch is on now.
func (m *Manager) On() bool { return m.gate.on() }

// Look reads the switch from a look at a serving station; call it at each. The
// error is that of a probe the station did not answer: look again soon. What is
// to be done for a fresh station is done behind it.
func (m *Manager) Look(ctx context.Context, l Look) error {
	before := m.State()
	err := m.gate.look(ctx, l)
	now := m.State()
	if now != before {
		m.o.Log.Info().Bool("on", now.LiquidMemory).Bool("station_kv_session", now.StationKVSession).Bool("station_kv_turn", now.StationKVTurn).Str("reason", now.Reason).Msg("liquid memory")
	}
	if l.Fresh {
		m.tell.forgetTokens()
	}
	if now.LiquidMemory && l.Render != nil && (l.Fresh || !before.LiquidMemory || !m.warm.begun()) {
		m.warm.start(l.Render)
	}
	return err
}

// off turns the switch off: a route of the station answered 404 to a request.
func (m *Manager) off(route string) {
	m.gate.off(route)
	m.o.Log.Warn().Str("route", route).Msg("liquid memory is off: the station answered 404 in service")
	m.o.Suspect()
}

// Close ends what runs behind requests and waits for it. Streams must be closed.
func (m *Manager) Close() {
	m.tasks.Lock()
	m.tasks.closed = true
	m.tasks.Unlock()
	m.warm.stop()
	// Last saves and deletions are under way; they need a moment, no more.
	late := time.AfterFunc(m.o.CloseWait, m.cancel)
	m.tasks.Wait()
	late.Stop()
	m.cancel()
}

// spawn runs f behind the requests; Close waits for it. false: too late.
func (m *Manager) spawn(f func()) bool {
	m.tasks.Lock()
	defer m.tasks.Unlock()
	if m.tasks.closed {
		return false
	}
	m.tasks.Go(f)
	return true
}

// behind makes the context of a call that outlives its request: the request's
// values, a bound of its own, and the manager's end.
func (m *Manager) behind(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d)
	stop := context.AfterFunc(m.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// end deletes a session nobody needs any more. A station that has ended it
// already says so, and one that cannot be reached ends it by its lease.
func (m *Manager) end(ctx context.Context, session string) {
	ctx, cancel := m.behind(ctx, m.o.SaveTimeout)
	defer cancel()
	_, err := m.o.Station.KVDelete(ctx, session, &wire.KVDeleteRequest{})
	if code := codeOf(err); code != "" && code != wire.CodeGone {
		m.o.Log.Debug().Err(err).Str("id", client.RequestID(ctx)).Msg("a session could not be deleted")
	}
}
