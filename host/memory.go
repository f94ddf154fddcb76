package host

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"thoth/host/openai"
	"thoth/host/prompt"
	"thoth/liquid"
	"thoth/station/wire"
)

// What the public API shows of liquid memory, and what liquid memory needs of
// the host.

// Response headers of our own, and the request header to do without reuse.
const (
	headerPath         = "X-Thoth-Path"
	headerLiquid       = "X-Thoth-Liquid-Memory"
	headerLiquidSaved  = "X-Thoth-Liquid-KV-Saved"
	headerLiquidReason = "X-Thoth-Liquid-Miss-Reason"
	headerLiquidTokens = "X-Thoth-Liquid-Prefix-Tokens"

	headerBypass = "X-Thoth-Liquid"
)

// bypasses reads X-Thoth-Liquid.
func bypasses(r *http.Request) (bool, *openai.Error) {
	values := r.Header.Values(headerBypass)
	switch {
	case len(values) == 0, len(values) == 1 && values[0] == "on":
		return false, nil
	case len(values) == 1 && values[0] == "off":
		return true, nil
	}
	return false, openai.NewError(openai.CodeInvalidValue, headerBypass, "the header %s is %q: allowed are on and off, once", headerBypass, printable(strings.Join(values, ", ")))
}

// outcome is that of all choices of which something is known; nil for none.
func (j *job) outcome() *liquid.Outcome { return together(j.outcomes) }

// together joins outcomes; one that choices share, they have one after the other.
func together(outcomes []*liquid.Outcome) *liquid.Outcome {
	var all, last *liquid.Outcome
	for _, o := range outcomes {
		same := o == last
		last = o
		switch {
		case o == nil, same:
		case all == nil:
			all = o
		default:
			all = all.Join(o)
		}
	}
	return all
}

// gnosisOf shows an outcome.
func gnosisOf(o *liquid.Outcome) *openai.Gnosis {
	g := &openai.Gnosis{LiquidMemory: string(o.Memory), LiquidKVSaved: o.KVSaved, LiquidPrefixTokens: o.PrefixTokens,
		LiquidTokensByTier: openai.ByTier(o.Tiers), LiquidSavedTokens: o.SavedTokens, LiquidDurable: o.Durable, Path: string(o.Path)}
	if why := o.MissReason(); why != "" {
		g.LiquidMissReason = &why
	}
	g.Timings.LoadMS = round(o.LoadMS)
	return g
}

// headersOf shows an outcome; nil has none.
func headersOf(o *liquid.Outcome) map[string]string {
	if o == nil {
		return nil
	}
	h := map[string]string{headerPath: string(o.Path), headerLiquid: string(o.Memory), headerLiquidSaved: strconv.FormatBool(o.KVSaved),
		headerLiquidTokens: strconv.Itoa(o.PrefixTokens)}
	if why := o.MissReason(); why != "" {
		h[headerLiquidReason] = why
	}
	return h
}

// announce sets the headers of a stream that begins with what is known, and
// declares trailers for what is not or may change: whether it was saved, and all
// the rest, since a stream may begin with a keep-alive comment before the first
// token. whole: something is known of every choice. It returns what the header
// tells of those declared.
func announce(h http.Header, o *liquid.Outcome, whole bool) map[string]string {
	known := headersOf(o)
	later := []string{headerLiquid, headerLiquidReason, headerLiquidSaved, headerLiquidTokens, headerPath}
	if o != nil && o.Path == liquid.Native && whole {
		later = nil
	}
	if later != nil {
		delete(known, headerLiquidSaved)
	}
	for name, value := range known {
		h.Set(name, value)
	}
	told := map[string]string{}
	for _, name := range later {
		h.Add("Trailer", name)
		told[name] = known[name]
	}
	return told
}

// trail sets those declared trailers that the header has not told.
func trail(h http.Header, told map[string]string, o *liquid.Outcome) {
	final := headersOf(o)
	for name, before := range told {
		if value := final[name]; value != "" && value != before {
			h.Set(name, value)
		} else {
			h.Del(name)
		}
	}
}

// newMemory makes liquid memory for the server's station.
func (s *Server) newMemory() (*liquid.Manager, error) {
	scopes := map[string]string{} // of each key, by its SHA-256 in hex
	var all []string
	for _, key := range s.keys {
		scope := liquid.Scope(key.scope, "")
		scopes[hex.EncodeToString(key.SHA256[:])] = scope
		all = append(all, scope)
	}
	if len(all) == 0 {
		all = []string{""}
	}
	for _, p := range s.o.LiquidWarm {
		if _, err := decodeMessages(p.Messages, s.o.Limits); err != nil {
			return nil, fmt.Errorf("the warm prompt %q: %s", p.Name, err.Message)
		}
		if _, ok := scopes[p.KeySHA256]; p.KeySHA256 != "" && !ok {
			return nil, fmt.Errorf("the warm prompt %q: key_sha256 is that of no API key of this server", p.Name)
		}
	}
	return liquid.New(liquid.Options{Enabled: s.o.LiquidMemory, Station: s.o.Station, Warm: s.o.LiquidWarm, Log: s.o.Log, Suspect: s.station.suspect,
		LoadWait: s.o.PrefillTimeout / 10 * 9, // a load is silent: it must end before its request is given up
		Scopes: func(p *liquid.WarmPrompt) []string {
			if p.KeySHA256 != "" {
				return []string{scopes[p.KeySHA256]}
			}
			return all
		}})
}

// decodeMessages reads messages as those of a chat request.
func decodeMessages(messages json.RawMessage, l openai.Limits) (*openai.ChatRequest, *openai.Error) {
	return openai.DecodeChat(slices.Concat([]byte(`{"model":"-","messages":`), messages, []byte(`}`)), l)
}

// renderer makes prompts of messages; nil without a template.
func renderer(t *prompt.Template, l openai.Limits) liquid.Render {
	if t == nil {
		return nil
	}
	return func(messages json.RawMessage) ([]wire.Segment, error) {
		req, e := decodeMessages(messages, l)
		if e != nil {
			return nil, e
		}
		segments, _, e := render(t, conversation(req), false)
		if e != nil {
			return nil, e
		}
		return segments, nil
	}
}

// stripsReasoning tells whether a template leaves the reasoning out of an answer
// that is no longer the last: such an answer is no prefix of the next prompt.
func stripsReasoning(t *prompt.Template) bool {
	const thought = "probe-thought-cedar"
	segments, err := t.Render(prompt.Conversation{Messages: []prompt.Message{{Role: prompt.User, Content: "probe"},
		{Role: prompt.Assistant, Content: "<think>\n" + thought + "\n</think>\n\nprobe"}, {Role: prompt.User, Content: "probe"}}})
	return err == nil && !strings.Contains(text(segments), thought)
}
