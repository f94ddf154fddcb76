package main

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"thoth/internal/bucket"
	"thoth/internal/env"
	"thoth/station/engine"
	"thoth/station/kvstore"
	"thoth/station/kvstore/block"
	"thoth/station/kvstore/cold"
	"thoth/station/native"
	"thoth/station/wire"
)

// kvFlags say where KV is kept.
type kvFlags struct {
	WarmBytes   int64         `name:"kv-warm-bytes" env:"THOTH_KV_WARM_BYTES" default:"-1" help:"RAM for stored KV. -1: an eighth of the free memory, at most 4 GiB; 0: KV sessions are off."`
	Store       string        `name:"kv-store" env:"THOTH_KV_STORE" default:"auto" help:"Where stored KV survives a restart: file:///dir, s3://bucket, gs://bucket, mem:// or none (set and empty is none). auto: a folder in the cache directory, unless that is kept in memory."`
	ColdBytes   int64         `name:"kv-cold-bytes" env:"THOTH_KV_COLD_BYTES" default:"-1" help:"Bytes the store may hold. -1: a tenth of the free disk, at most 8 GiB; of a bucket 32 GiB, of mem:// 256 MiB. 0: no store."`
	ColdTimeout time.Duration `name:"kv-cold-timeout" env:"THOTH_KV_COLD_TIMEOUT" default:"10s" help:"A read or write of the store that takes longer has failed."`
	Readers     int           `name:"kv-readers" env:"THOTH_KV_READERS" default:"8" help:"Blocks read from the store at once."`
	Writers     int           `name:"kv-writers" env:"THOTH_KV_WRITERS" default:"2" help:"Blocks written to the store at once."`
	Key         string        `name:"kv-key" env:"THOTH_KV_KEY" help:"Encrypts stored KV: 32 bytes in hex or base64. Another key finds nothing of this one's. A process list shows flags: use the variable."`
	Strict      bool          `name:"kv-strict" env:"THOTH_KV_STRICT" help:"Use only KV that the same kernel libraries have computed."`
	NoKVSession bool          `name:"no-kv-session" env:"THOTH_STATION_NO_KV_SESSION" help:"Leave /kv-session out, as an old station does: for tests of what is in front."`
}

const (
	mostWarm       = 4 << 30
	leastWarm      = 64 << 20
	mostColdFolder = 8 << 30
	mostColdBucket = 32 << 30
	mostColdMemory = 256 << 20
	storeAuto      = "auto"
	storeNone      = "none"
)

// check refuses what no store can be, before anything is loaded.
func (f *kvFlags) check() error {
	bad := func(format string, args ...any) error {
		return &engine.LoadError{Kind: engine.LoadBadSetting, Msg: fmt.Sprintf(format, args...)}
	}
	if _, err := f.masterKey(); err != nil {
		return bad("%v", err)
	}
	if f.WarmBytes < -1 || f.ColdBytes < -1 {
		return bad("THOTH_KV_WARM_BYTES and THOTH_KV_COLD_BYTES must be -1 (automatic), 0 (off) or a number of bytes")
	}
	if f.Readers < 1 || f.Writers < 1 || f.ColdTimeout <= 0 {
		return bad("THOTH_KV_READERS, THOTH_KV_WRITERS and THOTH_KV_COLD_TIMEOUT must be above 0")
	}
	if f.Store != storeAuto && f.Store != storeNone {
		if _, err := bucket.Kind(f.Store); err != nil {
			return bad("THOTH_KV_STORE: %v; or none, or auto", err)
		}
	}
	return nil
}

// masterKey is the encryption key, nil for none.
func (f *kvFlags) masterKey() ([]byte, error) {
	return cold.ParseKey(f.Key)
}

// options are the store's, all but what is known only after the load.
func (f *kvFlags) options(log zerolog.Logger) kvstore.Options {
	key, _ := f.masterKey() // checked at start
	o := kvstore.Options{WarmBytes: f.WarmBytes, Readers: f.Readers, Writers: f.Writers, Logger: log,
		Identity: block.Identity{Strict: f.Strict}}
	if o.WarmBytes < 0 {
		o.WarmBytes = max(leastWarm, min(mostWarm, native.FreeMemory()/8))
	}
	if key != nil {
		o.Identity.Sealed = cold.Fingerprint(key)
	}
	return o
}

// open opens the cold tier behind, or says why there is none. A store that cannot be
// used, or hangs, does not keep the station from serving; the log and /kv-session tell.
func (f *kvFlags) open(tokenBytes int, log zerolog.Logger) (kvstore.Cold, string) {
	store := f.Store
	if store == storeNone || f.ColdBytes == 0 {
		return nil, "turned off by THOTH_KV_STORE or THOTH_KV_COLD_BYTES"
	}
	if store == storeAuto {
		dir, why := bucket.InCache(env.CacheDir(), "kv", "THOTH_KV_STORE", "KV")
		if why != "" {
			return nil, why
		}
		store = dir
	}
	kind, err := bucket.Kind(store)
	if err != nil {
		return nil, "the store cannot be used: " + bucket.Sentence(err) // its path is the log's alone
	}
	key, _ := f.masterKey() // checked at start
	return cold.OpenLater(kind, func(ctx context.Context) (*cold.Tier, error) {
		budget := f.ColdBytes
		if budget < 0 {
			budget = coldBudget(store) // each time: a disk that hangs, or is full now, may come back
		}
		if budget <= 0 {
			return nil, fmt.Errorf("a tenth of the free space is no room for a store: %w", unix.ENOSPC)
		}
		return cold.Open(ctx, store, cold.Options{BudgetBytes: budget, TokenBytes: tokenBytes, MasterKey: key,
			Timeout: f.ColdTimeout, Logger: log})
	}, log), ""
}

// sayWhereKVIs is the one line that tells whether KV survives, and what.
func sayWhereKVIs(x *wire.KVIndex, log zerolog.Logger) {
	if x == nil {
		return // why not has been said
	}
	state := x.Cold.State
	if x.Cold.Reason == cold.Opening {
		state = "opening" // another line tells when it is open, or why not
	}
	log.Info().Int64("ram_budget_bytes", x.Warm.BudgetBytes).Str("store", x.Cold.Store).Str("store_state", state).
		Int64("store_budget_bytes", x.Cold.BudgetBytes).Int64("store_free_bytes", x.Cold.FreeBytes).Str("reason", x.Cold.Reason).Msg("stored KV")
}

// coldBudget is what a store may hold when nobody says.
func coldBudget(store string) int64 {
	u, err := url.Parse(store)
	switch {
	case err == nil && u.Scheme == "mem":
		return mostColdMemory
	case err == nil && u.Scheme != "" && u.Scheme != "file":
		return mostColdBucket
	case err == nil && u.Scheme == "file":
		store = u.Path
	}
	return min(mostColdFolder, freeDisk(store)/10)
}

// freeDisk is the free space of the disk that a folder is, or would be, on.
func freeDisk(dir string) int64 {
	for {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil {
			return int64(st.Bavail) * st.Bsize
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return 0
		}
		dir = parent
	}
}
