package main

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"thoth/host/stored"
	"thoth/internal/bucket"
	"thoth/internal/env"
)

// responsesFlags say where responses are stored.
type responsesFlags struct {
	Store       string        `name:"responses-store" env:"THOTH_RESPONSES_STORE" default:"auto" help:"Where responses of /v1/responses are stored, for previous_response_id and to be asked for again: file:///dir, s3://bucket, gs://bucket, mem:// or none (set and empty is none). Hosts with the same store find each other's. auto: a folder in the cache directory, unless that is kept in memory."`
	Bytes       int64         `name:"responses-bytes" env:"THOTH_RESPONSES_BYTES" default:"1073741824" help:"Bytes the store of responses may hold; beyond it, those unused the longest go, of the key that has the most."`
	RecordBytes int64         `name:"responses-record-bytes" env:"THOTH_RESPONSES_RECORD_BYTES" default:"16777216" help:"Largest response that is stored, with its input."`
	TTL         time.Duration `name:"responses-ttl" env:"THOTH_RESPONSES_TTL" default:"720h" help:"How long after its creation a response is stored."`
	Timeout     time.Duration `name:"responses-timeout" env:"THOTH_RESPONSES_TIMEOUT" default:"5s" help:"A read or write of the store of responses that takes longer has failed."`
	Key         string        `name:"responses-key" env:"THOTH_RESPONSES_KEY" placeholder:"KEY" help:"Encrypts stored responses: 32 bytes in hex or base64. With another key nothing is found. A process list shows flags: use the variable."`
}

// options are the store's; errors name the variable.
func (f *responsesFlags) options(log zerolog.Logger) (stored.Options, error) {
	// Zero is a default to the store, and no setting.
	if f.Bytes < 1 || f.RecordBytes < 1 {
		return stored.Options{}, fmt.Errorf("THOTH_RESPONSES_BYTES is %d and THOTH_RESPONSES_RECORD_BYTES is %d: they must be above 0 (for no store: THOTH_RESPONSES_STORE=none)", f.Bytes, f.RecordBytes)
	}
	if f.TTL <= 0 || f.Timeout <= 0 {
		return stored.Options{}, fmt.Errorf("THOTH_RESPONSES_TTL is %s and THOTH_RESPONSES_TIMEOUT is %s: they must be above 0", f.TTL, f.Timeout)
	}
	key, err := bucket.ParseKey(f.Key)
	if err != nil {
		return stored.Options{}, fmt.Errorf("THOTH_RESPONSES_KEY: %w", err)
	}
	return stored.Options{Address: f.Store, CacheDir: env.CacheDir(), BudgetBytes: f.Bytes, RecordBytes: f.RecordBytes,
		TTL: f.TTL, Key: key, Timeout: f.Timeout, Log: log}, nil
}
