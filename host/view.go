package host

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"
	"time"
	"unicode"

	"thoth/host/dialect"
	"thoth/host/openai"
	"thoth/host/prompt"
	"thoth/station/wire"
)

// phase is what the host knows about the station.
type phase string

const (
	phaseUnknown phase = "unknown"     // never answered
	phaseLoading phase = "loading"     // alive, the model is not there yet
	phaseServing phase = "ok"          // alive, with a model
	phaseFailed  phase = "failed"      // alive, and the model is unusable
	phaseDown    phase = "unavailable" // not reached, or draining
	phaseStalled phase = "stalled"     // connected, and it does not answer
)

// view is an immutable picture of the station. What it has not told yet is nil.
type view struct {
	phase  phase
	reason string // when not serving: one sentence
	since  time.Time

	health *wire.Health
	model  *wire.Model
	unread bool // whether it saves KV sessions was asked and not answered

	template        *prompt.Template
	templateErr     error
	dialect         *dialect.Dialect // never nil beside a template
	stripsReasoning bool             // the template leaves it out of old answers
	names           []string         // served; the first is what answers carry
	fingerprint     string
	loaded          time.Time // when the host learnt of this model
}

// ready tells whether chats can be served.
func (v *view) ready() bool { return v.phase == phaseServing && v.template != nil }

// refusal is the answer to a chat while not ready, nil when ready.
func (v *view) refusal() *openai.Error {
	switch {
	case v.ready():
		return nil
	case v.phase == phaseServing:
		return openai.NewError(openai.CodeBadTemplate, "", "the model cannot chat: its chat template is broken; /health tells more").Retry(30 * time.Second)
	case v.phase == phaseLoading:
		return openai.NewError(openai.CodeLoading, "", "the model is still loading (%.0f %%)", 100*v.health.LoadProgress).Retry(2 * time.Second)
	case v.phase == phaseFailed:
		return openai.NewError(openai.CodeUnavailable, "", "the station cannot serve: %s", v.reason).Retry(30 * time.Second)
	}
	return openai.NewError(openai.CodeUnavailable, "", "the station is not available: %s", v.reason).Retry(2 * time.Second)
}

// names lists the served names: the setting's, or own, and the aliases. Before
// the model is known own is empty.
func (o Options) names(own string) []string {
	if o.ModelName != "" {
		own = o.ModelName
	}
	if own == "" {
		return nil
	}
	names := []string{own}
	for _, a := range o.Aliases {
		if a != own {
			names = append(names, a)
		}
	}
	return names
}

// serves tells whether name is one of the served ones.
func (v *view) serves(name string) bool {
	for _, n := range v.names {
		if n == name {
			return true
		}
	}
	return false
}

func (v *view) notFound(name string) *openai.Error {
	if r := []rune(name); len(r) > 64 {
		name = string(r[:64]) + "…"
	}
	served := "none yet"
	if len(v.names) > 0 {
		served = strings.Join(v.names, ", ")
	}
	return openai.NewError(openai.CodeModelNotFound, "model", "the model %q does not exist here; served: %s", name, served)
}

// servedName makes a public name of the model's own: no spaces, no path.
func servedName(m *wire.Model) string {
	for _, s := range []string{m.Name, strings.TrimSuffix(path.Base(m.File), ".gguf")} {
		name := strings.Map(func(r rune) rune {
			switch {
			case unicode.IsSpace(r):
				return '-'
			case r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)), strings.ContainsRune("._:-", r):
				return r
			}
			return -1
		}, path.Base(strings.TrimSpace(s)))
		if name = strings.Trim(name, ".-:"); name != "" {
			return name
		}
	}
	return "default"
}

// fingerprint changes when anything does that can change an answer: the build,
// the engine, the model.
func fingerprint(h *wire.Health, m *wire.Model) string {
	sum := sha256.Sum256(fmt.Append(nil, h.Build, "\x00", h.EngineABI, "\x00", h.KVTypeK, h.KVTypeV, h.FlashAttention, "\x00", m.File, "\x00", m.SizeBytes))
	return "fp_" + hex.EncodeToString(sum[:6])
}
