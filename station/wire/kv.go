package wire

import "time"

// KVLoadRequest is the body of POST /kv-session/load. The session is named by
// X-Session-Id; X-Prefix-Length bounds the restored prefix (0: as far as
// possible). At least one staged token is left to evaluate.
type KVLoadRequest struct {
	Scope  string `json:"scope,omitempty"`   // whose blocks; "" is the common scope
	WaitMS *int64 `json:"wait_ms,omitempty"` // longest wait for another session's prefill or for a slow store; absent: as long as it pays
	Group  string `json:"group,omitempty"`   // label of what is kept so
	Keep   bool   `json:"keep,omitempty"`    // when the session ends and no save was made of it (its caller went away), the full blocks it evaluated are stored
}

// KVLoadResponse tells what was restored. Its Position is where the next
// /forward starts.
type KVLoadResponse struct {
	Session  string  `json:"session"`
	Position int     `json:"position"` // tokens of KV the session now has
	Staged   int     `json:"staged"`   // tokens left to evaluate
	Tiers    KVTiers `json:"tiers"`    // of Position, by where they came from

	// Why no more was restored; "" when all but the last token was.
	Reason KVReason `json:"reason,omitempty"`
	// Where the staged tokens leave what is stored under the same prefix: the
	// position of the first token that differs, and both tokens. -1 when nothing
	// stored goes on from there.
	DiffersAt   int    `json:"differs_at"`
	PromptToken *int32 `json:"prompt_token,omitempty"`
	StoredToken *int32 `json:"stored_token,omitempty"`

	QueueMS float64 `json:"queue_ms"` // for a place in the pool
	WaitMS  float64 `json:"wait_ms"`  // for another session's prefill, or for the cold store
	LoadMS  float64 `json:"load_ms"`  // copying into the pool
}

// KVTiers splits a number of tokens by tier.
type KVTiers struct {
	Hot  int `json:"hot"`  // shared with cells in the pool
	Warm int `json:"warm"` // copied from RAM
	Cold int `json:"cold"` // read from disk or bucket for this request
}

// KVReason says why a prefix is short; a closed set.
type KVReason string

const (
	KVNothing    KVReason = "nothing_stored"     // no block of this scope begins like the prompt
	KVDiffers    KVReason = "prompt_differs"     // stored blocks go on with another token
	KVEnds       KVReason = "stored_prefix_ends" // all that is stored was used, the prompt is longer
	KVEvicted    KVReason = "evicted"            // it was stored, and a budget pushed it out
	KVExpired    KVReason = "deleted"            // it was stored, and deleted on request
	KVDamaged    KVReason = "damaged"            // a stored block failed a check and was dropped
	KVStoreSlow  KVReason = "store_slow"         // computing is predicted to be faster than reading
	KVStoreFails KVReason = "store_failing"      // the cold store fails or hangs
	KVLimit      KVReason = "prefix_length"      // X-Prefix-Length asked for no more
	KVNoRoom     KVReason = "no_room"            // it did not fit the pool now
	KVUnnamed    KVReason = "not_named_yet"      // the weights' digest is not known yet: the cold store cannot be asked
	KVEngine     KVReason = "engine_failed"      // the engine refused the restored state
)

// KVSaveRequest is the body of POST /kv-session/save. X-Prefix-Length tokens of
// the session X-Session-Id are captured; 0 captures nothing, under any id.
type KVSaveRequest struct {
	Scope      string `json:"scope,omitempty"`
	Group      string `json:"group,omitempty"`       // a client's label; delete knows it
	Name       string `json:"name,omitempty"`        // shown in the index
	TTLSeconds int64  `json:"ttl_seconds,omitempty"` // not evicted before, within limits
	Pin        bool   `json:"pin,omitempty"`         // not evicted at all, within limits
	Points     []int  `json:"points,omitempty"`      // ttl and pin reach to the highest of these lengths; none: to the end
	Release    bool   `json:"release,omitempty"`     // end the session after it
}

// KVSaveResponse tells what was captured. A full or failing store is an answer,
// not an error: Saved is false and Reason says why.
type KVSaveResponse struct {
	Saved   bool   `json:"saved"`
	Reason  string `json:"reason,omitempty"` // one sentence, when not
	Tokens  int    `json:"tokens"`           // captured, stored before or now
	Written int    `json:"written"`          // of these, newly stored
	Bytes   int64  `json:"bytes"`            // of the newly stored
	Durable bool   `json:"durable"`          // all of it is in the cold store already
}

// KVTurn, in a GenerateRequest, makes one call of what /embed, /kv-session/load,
// /forward, /decode-next and two /kv-session/save would do: the longest stored prefix of
// the prompt is restored, the rest is evaluated, the prompt is saved when its first token
// is drawn, and each answer behind it when it ends. The stream has a restored frame ahead
// of all, an evaluated frame ahead of the first token, and in its done frames
// what was saved. A failed restore is no error: the prompt is computed. Where nobody
// reads the answer to its end, Keep says what is stored of what was evaluated.
//
// Whether a station does this is Health.KVTurn; one that does not know it computes
// all of the prompt, and sends no restored frame.
type KVTurn struct {
	KVLoadRequest
	TTLSeconds int64  `json:"ttl_seconds,omitempty"` // as in KVSaveRequest, likewise Pin
	Pin        bool   `json:"pin,omitempty"`
	Answers    bool   `json:"answers,omitempty"` // answers are saved, too
	Unless     string `json:"unless,omitempty"`  // but for one with this in its text, control tokens written out
}

// KVRestored is what a KVTurn began with. Its Session is empty.
type KVRestored struct {
	PromptTokens int `json:"prompt_tokens"`
	KVLoadResponse
}

// KVDeleteRequest is the body of POST /kv-session/delete: ends the session of
// X-Session-Id, if that is given, and drops stored blocks by key, by group of a
// scope, by scope, or all.
type KVDeleteRequest struct {
	Keys  []string `json:"keys,omitempty"`  // hex block keys
	Scope *string  `json:"scope,omitempty"` // all blocks of a scope
	Group string   `json:"group,omitempty"` // only those of this group; with Scope, or of all scopes
	All   bool     `json:"all,omitempty"`
}

// KVDeleteResponse counts what was dropped.
type KVDeleteResponse struct {
	Session bool  `json:"session"` // a session was ended
	Blocks  int   `json:"blocks"`
	Bytes   int64 `json:"bytes"`
}

// KVLookupRequest is the body of POST /kv-session/lookup: what of a prompt is
// stored, and where. Nothing is moved.
type KVLookupRequest struct {
	Prompt Prompt `json:"prompt"`
	Scope  string `json:"scope,omitempty"`
}

// KVLookupResponse tells what of the prompt's tokens is stored.
type KVLookupResponse struct {
	Tokens      int      `json:"tokens"` // of the prompt
	Position    int      `json:"position"`
	Tiers       KVTiers  `json:"tiers"`
	Reason      KVReason `json:"reason,omitempty"`
	DiffersAt   int      `json:"differs_at"`
	PromptToken *int32   `json:"prompt_token,omitempty"`
	StoredToken *int32   `json:"stored_token,omitempty"`
	Keys        []string `json:"keys,omitempty"` // of the blocks, hex, first to last
}

// KVFlushResponse answers POST /kv-session/flush and is what SIGTERM reports.
type KVFlushResponse struct {
	Kept  int   `json:"kept"` // blocks written down now
	Lost  int   `json:"lost"` // blocks that could not be, and live in RAM only
	Bytes int64 `json:"bytes"`
}

// KVIndex answers GET /kv-session, and is part of /stats: what is stored, in numbers.
type KVIndex struct {
	BlockTokens int    `json:"block_tokens"`
	TokenBytes  int    `json:"token_bytes"`
	Root        string `json:"root"`   // first bytes, hex, of what all keys of the common scope start from
	Scopes      int    `json:"scopes"` // with blocks in RAM

	Hot  KVTier `json:"hot"`
	Warm KVTier `json:"warm"`
	Cold KVTier `json:"cold"`

	Pending      int   `json:"pending"` // blocks captured, their copy not yet made
	Dirty        int   `json:"dirty"`   // blocks in RAM that the cold store does not have
	DirtyBytes   int64 `json:"dirty_bytes"`
	Pinned       int   `json:"pinned"` // blocks held by pin or ttl
	HeldByReader int   `json:"held_by_reader"`

	Loads         uint64            `json:"loads"`
	Saves         uint64            `json:"saves"`
	TokensAsked   uint64            `json:"tokens_asked"`   // by loads
	TokensWritten uint64            `json:"tokens_written"` // newly captured by saves
	Coalesced     uint64            `json:"coalesced"`      // loads that waited for another session's prefill and used it
	Scattered     uint64            `json:"scattered"`      // restores whose cells were not one run
	Short         map[string]uint64 `json:"short"`          // loads by reason
	ExportSeconds float64           `json:"export_seconds"` // pool to RAM
	ExportBytes   uint64            `json:"export_bytes"`
	ExportGBps    float64           `json:"export_gb_per_s"` // of the above
	ImportSeconds float64           `json:"import_seconds"`  // RAM to pool
	ImportBytes   uint64            `json:"import_bytes"`
	ImportGBps    float64           `json:"import_gb_per_s"` // of the above

	Top []KVPrefix `json:"top,omitempty"` // stored ends by tokens saved, most first; at most 20
}

// KVTier is one tier's numbers.
type KVTier struct {
	State       string            `json:"state"`            // "on", "off", "failing"
	Reason      string            `json:"reason,omitempty"` // when not on
	Store       string            `json:"store,omitempty"`  // kind of the cold store: file, s3, gs, mem; no path leaves the station
	BudgetBytes int64             `json:"budget_bytes"`
	FreeBytes   int64             `json:"free_bytes,omitempty"` // of the disk below, where known
	Bytes       int64             `json:"bytes"`
	UsableBytes int64             `json:"usable_bytes"` // of blocks this model can use, with all their parents
	Blocks      int               `json:"blocks"`
	Hits        uint64            `json:"hits"`       // loads that got tokens here
	HitTokens   uint64            `json:"hit_tokens"` //
	Evictions   uint64            `json:"evictions"`
	Drops       map[string]uint64 `json:"drops,omitempty"` // blocks dropped by a check, by reason

	ReadSeconds   float64 `json:"read_seconds,omitempty"`
	ReadBytes     uint64  `json:"read_bytes,omitempty"`
	WriteSeconds  float64 `json:"write_seconds,omitempty"`
	WrittenBytes  uint64  `json:"written_bytes,omitempty"`
	VerifySeconds float64 `json:"verify_seconds,omitempty"`
	Failures      uint64  `json:"failures,omitempty"` // reads and writes that failed or timed out
}

// KVPrefix is a stored prefix, without its text.
type KVPrefix struct {
	Key         string    `json:"key"` // of its last block, hex
	Name        string    `json:"name,omitempty"`
	Scope       string    `json:"scope,omitempty"`
	Group       string    `json:"group,omitempty"`
	Tokens      int       `json:"tokens"`
	Hits        uint64    `json:"hits"`
	TokensSaved uint64    `json:"tokens_saved"`
	Pinned      bool      `json:"pinned,omitempty"`
	LastUsed    time.Time `json:"last_used"`
}
