package liquid

import "thoth/station/wire"

// Memory is what liquid memory did for a choice, as the public API names it.
type Memory string

const (
	Hit           Memory = "hit"            // a stored prefix worth the name was restored
	Miss          Memory = "miss"           // none was, or too little to tell
	CaptureFailed Memory = "capture_failed" // hit or miss, and the station did not keep it
	Disabled      Memory = "disabled"       // the switch is off
	Bypass        Memory = "bypass"         // not tried: asked for, or nothing to gain
)

// Path is how the station was asked.
type Path string

const (
	Liquid Path = "liquid"
	Native Path = "native"
)

// Reason says why a choice restored no more, or was not kept: a closed set. The
// first ones are the station's own ([wire.KVReason]); the value is a label of
// metrics, its sentence is what clients read.
type Reason string

const (
	ReasonSave     Reason = "save_failed"
	ReasonLoad     Reason = "load_failed"
	ReasonEmbed    Reason = "embed_failed"
	ReasonForward  Reason = "forward_failed"
	ReasonDecode   Reason = "decode_failed"
	ReasonLost     Reason = "session_lost"
	ReasonRoute    Reason = "route_missing"
	ReasonDropped  Reason = "prefix_dropped"
	ReasonPosition Reason = "position_mismatch"
	ReasonShort    Reason = "prompt_too_short"
	ReasonBypass   Reason = "bypassed"
	ReasonOff      Reason = "off"
)

// sentences are the words of all reasons; nothing else is ever shown.
var sentences = map[Reason]string{
	Reason(wire.KVNothing):    "no stored prefix",
	Reason(wire.KVDiffers):    "prompt differs from what is stored",
	Reason(wire.KVEnds):       "stored prefix ends early",
	Reason(wire.KVEvicted):    "prefix evicted",
	Reason(wire.KVExpired):    "prefix deleted",
	Reason(wire.KVDamaged):    "stored prefix damaged",
	Reason(wire.KVStoreSlow):  "computing is faster than the store",
	Reason(wire.KVStoreFails): "the store is failing",
	Reason(wire.KVLimit):      "prefix length limited",
	Reason(wire.KVNoRoom):     "no room for the stored prefix",
	Reason(wire.KVUnnamed):    "the weights' digest is not known yet",
	Reason(wire.KVEngine):     "engine refused the stored prefix",

	ReasonSave:     "station kv session save failed",
	ReasonLoad:     "station kv session load failed",
	ReasonEmbed:    "station refused the session",
	ReasonForward:  "station could not evaluate the session",
	ReasonDecode:   "station could not decode the session",
	ReasonLost:     "station session lost",
	ReasonRoute:    "station lacks a liquid route",
	ReasonDropped:  "restored prefix was dropped under memory pressure",
	ReasonPosition: "restored position does not match",
	ReasonShort:    "prompt too short to gain",
	ReasonBypass:   "bypassed by the request",
	ReasonOff:      "liquid memory is off",
}

// Sentence is what clients read; "" for no reason.
func (r Reason) Sentence() string { return sentences[r] }

// reasonOf takes the station's reason. One that a newer station has and this
// build does not is told as the plainest.
func reasonOf(r wire.KVReason) Reason {
	if _, ok := sentences[Reason(r)]; !ok && r != "" {
		return Reason(wire.KVNothing)
	}
	return Reason(r)
}

// Outcome is what one choice got from liquid memory and left in it. It does not
// change; a stream replaces it as more becomes known.
type Outcome struct {
	Memory Memory
	Path   Path
	Reason Reason // why no more was restored, also beside a hit; why it was not kept

	PrefixTokens int          // restored, of the prompt
	Tiers        wire.KVTiers // of PrefixTokens
	DiffersAt    int          // position where the prompt leaves what is stored; -1: it does not
	LoadMS       float64      // waiting for and copying of what was restored

	KVSaved     bool // the station keeps what it was asked to
	Written     int  // prompt tokens newly stored
	SavedTokens int  // prompt and answer tokens newly stored, as far as known at the answer's end
	Durable     bool // all of it is on disk or in the bucket already

	asked         int    // tokens of a prompt that was staged
	token, stored *int32 // at DiffersAt
}

// MissReason is the sentence of a choice that was not a plain hit, or "".
func (o *Outcome) MissReason() string {
	if o.Memory == Hit {
		return ""
	}
	return o.Reason.Sentence()
}

// dropped is the outcome when the station gave up between load and evaluation
// what it had restored: nothing was saved but the wait.
func (o *Outcome) dropped() *Outcome {
	d := *o
	d.Memory, d.Reason = Miss, ReasonDropped
	d.PrefixTokens, d.Tiers = 0, wire.KVTiers{}
	d.DiffersAt, d.token, d.stored = -1, nil, nil
	return &d
}

// Join is the outcome of a request with several choices: the least that any of
// them got, since the prompt counts once, and all that they left.
func (o *Outcome) Join(p *Outcome) *Outcome {
	j := *o
	if rank[p.Memory] > rank[o.Memory] {
		j.Memory, j.Reason, j.DiffersAt = p.Memory, p.Reason, p.DiffersAt
	}
	if p.PrefixTokens < o.PrefixTokens {
		j.PrefixTokens, j.Tiers = p.PrefixTokens, p.Tiers
	}
	if p.Path == Native {
		j.Path = Native
	}
	j.LoadMS = max(o.LoadMS, p.LoadMS)
	j.KVSaved = o.KVSaved && p.KVSaved
	j.Durable = o.Durable && p.Durable
	j.Written += p.Written
	j.SavedTokens += p.SavedTokens
	return &j
}

// rank orders outcomes by how much a client should hear of them.
var rank = map[Memory]int{Hit: 0, Miss: 1, Bypass: 2, Disabled: 3, CaptureFailed: 4}

// What a hit is. The first tokens of a prompt are the template's own and stand in
// front of every conversation: restored for everybody, they are counted
// (PrefixTokens, cached_tokens) and are no hit that a user would recognise. So a
// hit is what reaches hitBeyond tokens past the head that any two conversations
// of this template share, or all of a prompt but its closing tokens.
const (
	headGuess = 24 // of a template not measured yet
	hitBeyond = 8
	hitTail   = 4
)

func isHit(restored, prompt, head int) bool {
	return restored >= head+hitBeyond || restored > 0 && restored >= prompt-hitTail
}
