package stored

import (
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"thoth/internal/bucket"
)

// Addresses that are no bucket's.
const (
	Auto = "auto" // a folder in the cache directory, unless that is kept in memory
	None = "none" // off, as is ""
)

// folder is the store's own, in the folder or bucket it was given and in the cache
// directory: what lies beside it belongs to others, whatever its name.
const folder = "thoth-responses"

// mostRecordBytes is what no record may exceed, whatever is set: one is in memory as a whole.
const mostRecordBytes = 256 << 20

// Options of a Store. Only Address is needed; zero values mean the default.
type Options struct {
	Address     string        // of the folder or bucket to have a folder in (see package bucket), Auto or None
	CacheDir    string        // for Auto; empty: there is none
	BudgetBytes int64         // of all records; default 1 GiB
	RecordBytes int64         // of the largest record; default 16 MiB
	TTL         time.Duration // from a record's creation to its end; default 720h
	Key         []byte        // of bucket.KeyBytes bytes, seals the records; nil: stored in the clear
	Timeout     time.Duration // of one call to the bucket; default 5s
	Sweep       time.Duration // between two sweeps; default 10m, or the TTL
	Log         zerolog.Logger
}

func (o Options) withDefaults() (Options, error) {
	for _, f := range []struct {
		name string
		v    *int64
		d    int64
	}{{"THOTH_RESPONSES_BYTES", &o.BudgetBytes, 1 << 30}, {"THOTH_RESPONSES_RECORD_BYTES", &o.RecordBytes, 16 << 20}} {
		if *f.v == 0 {
			*f.v = f.d
		}
		if *f.v < 0 {
			return o, fmt.Errorf("%s is %d: it must be above 0", f.name, *f.v)
		}
	}
	if o.Sweep == 0 && o.TTL > 0 {
		o.Sweep = max(min(10*time.Minute, o.TTL), time.Second)
	}
	for _, f := range []struct {
		name string
		v    *time.Duration
		d    time.Duration
	}{{"THOTH_RESPONSES_TTL", &o.TTL, 720 * time.Hour}, {"the store's timeout", &o.Timeout, 5 * time.Second}, {"the store's sweep", &o.Sweep, 10 * time.Minute}} {
		if *f.v == 0 {
			*f.v = f.d
		}
		if *f.v < 0 {
			return o, fmt.Errorf("%s is %s: it must be above 0", f.name, *f.v)
		}
	}
	switch {
	case o.RecordBytes > mostRecordBytes:
		return o, fmt.Errorf("THOTH_RESPONSES_RECORD_BYTES is %d: allowed are 1 to %d", o.RecordBytes, mostRecordBytes)
	case o.BudgetBytes < cost(o.RecordBytes):
		return o, fmt.Errorf("THOTH_RESPONSES_BYTES is %d: it must hold at least one record of the largest size, THOTH_RESPONSES_RECORD_BYTES (%d)", o.BudgetBytes, o.RecordBytes)
	case len(o.Key) != 0 && len(o.Key) != bucket.KeyBytes:
		return o, errors.New("THOTH_RESPONSES_KEY: want 32 bytes")
	}
	switch o.Address {
	case "":
		o.Address = None
	case Auto, None:
	default:
		if _, err := bucket.Kind(o.Address); err != nil {
			return o, fmt.Errorf("THOTH_RESPONSES_STORE: %w; or none, or auto", err)
		}
	}
	return o, nil
}
