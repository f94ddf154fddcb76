package openai

import (
	"bytes"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of what a request may say about the reuse of its prompt.
const (
	maxCacheKey    = 64  // bytes; OpenAI's limit is as many characters
	maxCacheSalt   = 256 // bytes
	maxBreakpoints = 4   // OpenAI's limit of cache writes in a request

	minCacheTTL = time.Second
	maxCacheTTL = 7 * 24 * time.Hour
)

const ttlAllowed = "a duration from 1s to 168h, such as 5m, 30m, 1h, 12h or 24h"

// CacheControl is what a request says about the reuse of its prompt: the
// parameters of OpenAI's prompt caching and two extensions, as one.
type CacheControl struct {
	Group    string        // prompt_cache_key: a label by which an operator may delete
	Salt     string        // cache_salt: what is stored is found only with the same one
	Explicit bool          // store up to the breakpoints only, and nothing without one
	TTL      time.Duration // not evicted before, within the station's limits; 0: no promise
	Pin      bool          // not evicted at all, within the station's limits
}

// Caching are the parameters about the reuse of a prompt. CacheSalt is an
// extension.
type Caching struct {
	PromptCacheKey       *string       `json:"prompt_cache_key"`
	PromptCacheOptions   *CacheOptions `json:"prompt_cache_options"`
	PromptCacheRetention *string       `json:"prompt_cache_retention"`
	CacheSalt            *string       `json:"cache_salt"`
}

// Cache sums up validated cache parameters. A request has one lifetime: the
// longest that it asks for.
func (r *Caching) Cache() CacheControl {
	c := CacheControl{Group: text(r.PromptCacheKey), Salt: text(r.CacheSalt)}
	if r.PromptCacheRetention != nil && *r.PromptCacheRetention == retention24h {
		c.TTL = 24 * time.Hour
	}
	if o := r.PromptCacheOptions; o != nil {
		c.Explicit = o.Mode != nil && *o.Mode == modeExplicit
		c.Pin = o.Pin
		c.TTL = max(c.TTL, lifetime(o.TTL))
	}
	return c
}

// Cache sums up the cache parameters and the breakpoints of the messages.
func (r *ChatRequest) Cache() CacheControl {
	c := r.Caching.Cache()
	for i := range r.Messages {
		c.TTL = max(c.TTL, r.Messages[i].Content.ttl)
	}
	return c
}

// Values of mode and of prompt_cache_retention. The hyphen is what OpenAI's
// own libraries sent for a while.
const (
	modeImplicit = "implicit"
	modeExplicit = "explicit"

	retentionMemory = "in_memory"
	retentionHyphen = "in-memory"
	retention24h    = "24h"
)

// CacheOptions is prompt_cache_options. Pin is an extension.
type CacheOptions struct {
	Mode    *string        `json:"mode"`
	TTL     *string        `json:"ttl"`
	Pin     bool           `json:"pin"`
	Unknown jsontext.Value `json:",embed"`
}

// CacheBreakpoint is prompt_cache_breakpoint of a text part: what is stored is
// to reach to the part's end. TTL is an extension.
type CacheBreakpoint struct {
	Mode    *string        `json:"mode"`
	TTL     *string        `json:"ttl"`
	Unknown jsontext.Value `json:",embed"`
}

func (r *Caching) validate() *Error {
	if n := len(text(r.PromptCacheKey)); n > maxCacheKey {
		return NewError(CodeInvalidValue, "prompt_cache_key", "prompt_cache_key has %d bytes: at most %d are allowed", n, maxCacheKey)
	}
	if s := r.CacheSalt; s != nil && (*s == "" || len(*s) > maxCacheSalt) {
		return NewError(CodeInvalidValue, "cache_salt", "cache_salt has %d bytes: it must be a string of 1 to %d bytes", len(*s), maxCacheSalt)
	}
	if err := r.PromptCacheOptions.validate("prompt_cache_options"); err != nil {
		return err
	}
	if v := r.PromptCacheRetention; v != nil {
		switch *v {
		case retentionMemory, retentionHyphen, retention24h:
		default:
			return NewError(CodeInvalidValue, "prompt_cache_retention", "prompt_cache_retention is %q: allowed are %q and %q", clip(*v), retentionMemory, retention24h)
		}
		if o := r.PromptCacheOptions; o != nil && o.TTL != nil {
			return NewError(CodeInvalidValue, "prompt_cache_retention", "prompt_cache_retention and prompt_cache_options.ttl both say how long to keep: give one of them")
		}
	}
	return nil
}

func (r *ChatRequest) validateCache(Limits) *Error {
	if err := r.Caching.validate(); err != nil {
		return err
	}
	marked := 0
	for i := range r.Messages {
		marked += len(r.Messages[i].Content.Breakpoints)
	}
	if marked > maxBreakpoints {
		return NewError(CodeInvalidValue, "messages", "messages have %d parts with prompt_cache_breakpoint: at most %d are allowed in a request", marked, maxBreakpoints)
	}
	return nil
}

func (o *CacheOptions) validate(path string) *Error {
	if o == nil {
		return nil
	}
	if err := refuseUnknown(o.Unknown, path, "mode, ttl and pin"); err != nil {
		return err
	}
	if o.Mode != nil && *o.Mode != modeImplicit && *o.Mode != modeExplicit {
		return NewError(CodeInvalidValue, path+".mode", "%s.mode is %q: allowed are %q and %q", path, clip(*o.Mode), modeImplicit, modeExplicit)
	}
	return validateTTL(o.TTL, path+".ttl")
}

func (b *CacheBreakpoint) validate(path string) *Error {
	if err := refuseUnknown(b.Unknown, path, "mode and ttl"); err != nil {
		return err
	}
	switch {
	case b.Mode == nil:
		return NewError(CodeMissing, path+".mode", "%s.mode is missing: allowed is %q", path, modeExplicit)
	case *b.Mode != modeExplicit:
		return NewError(CodeInvalidValue, path+".mode", "%s.mode is %q: allowed is %q", path, clip(*b.Mode), modeExplicit)
	}
	return validateTTL(b.TTL, path+".ttl")
}

func validateTTL(ttl *string, path string) *Error {
	if ttl == nil {
		return nil
	}
	if d, err := time.ParseDuration(*ttl); err != nil || d < minCacheTTL || d > maxCacheTTL {
		return NewError(CodeInvalidValue, path, "%s is %q: it must be %s", path, clip(*ttl), ttlAllowed)
	}
	return nil
}

// lifetime reads a validated ttl; 0 for none.
func lifetime(ttl *string) time.Duration {
	d, _ := time.ParseDuration(text(ttl))
	return d
}

// refuseUnknown names the first field of an object that nobody here knows:
// dropped in silence, a misspelt ttl would keep nothing.
func refuseUnknown(unknown jsontext.Value, path, allowed string) *Error {
	dec := jsontext.NewDecoder(bytes.NewReader(unknown))
	if _, err := dec.ReadToken(); err != nil { // none given
		return nil
	}
	name, err := dec.ReadToken()
	if err != nil || name.Kind() != '"' {
		return nil
	}
	at := path + "." + clip(name.String())
	return NewError(CodeUnsupported, at, "%s is not known: %s may have %s", at, path, allowed)
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
