package host

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/cors"

	"thoth/host/openai"
	"thoth/station/wire"
)

// apiKey is a key in service.
type apiKey struct {
	Key
	scope string // see [scopeKey]
	quota *quota
}

// keyring holds the keys of the server.
type keyring []*apiKey

func newKeyring(keys []Key) keyring {
	ring := make(keyring, len(keys))
	for i, k := range keys {
		ring[i] = &apiKey{k, scopeOf(k.SHA256), newQuota(k.Limits)}
	}
	return ring
}

// used tells whether requests need a key. One of either scope is enough: a
// server with an admin key alone must not be open to everybody.
func (r keyring) used() bool { return len(r) > 0 }

// some tells whether any key has the scope.
func (r keyring) some(s KeyScope) bool {
	return slices.ContainsFunc(r, func(k *apiKey) bool { return k.Key.may(s) })
}

// find is the key that was sent, nil for none of ours. It compares digests,
// which have equal lengths, with those of every key, without stopping at a match:
// it takes the same time whatever was sent.
func (r keyring) find(sent string) *apiKey {
	sum := sha256.Sum256([]byte(sent))
	at := -1
	for i, k := range r {
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], k.SHA256[:]), i, at)
	}
	if at < 0 {
		return nil
	}
	return r[at]
}

type callerKey struct{}

// callerOf is the key of a request, nil when no keys are in use.
func callerOf(ctx context.Context) *apiKey {
	k, _ := ctx.Value(callerKey{}).(*apiKey)
	return k
}

// may tells what the caller is allowed to do by its key; without one, nothing.
func (k *apiKey) may(s KeyScope) bool { return k != nil && k.Key.may(s) }

// scopeKey names whose stored prefixes a request may use: a digest of its key, ""
// when no keys are in use. It is not the digest that keys are compared by, since
// it leaves the process.
func scopeKey(ctx context.Context) string {
	if k := callerOf(ctx); k != nil {
		return k.scope
	}
	return ""
}

func scopeOf(key [sha256.Size]byte) string {
	sum := sha256.Sum256(append([]byte("thoth scope\x00"), key[:]...))
	return hex.EncodeToString(sum[:])
}

// headerAPIKey is where Anthropic's clients send their key.
const headerAPIKey = "X-Api-Key"

// sentKey is the key a request came with, "" for none.
func sentKey(h http.Header) string {
	if scheme, key, _ := strings.Cut(h.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") && strings.TrimSpace(key) != "" {
		return strings.TrimSpace(key)
	}
	return strings.TrimSpace(h.Get(headerAPIKey))
}

// authenticate asks for a key on every route but the health probes.
func (s *Server) authenticate(next http.Handler) http.Handler {
	if !s.keys.used() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if openRoutes[r.URL.Path] {
			next.ServeHTTP(w, r)
			return
		}
		sent := sentKey(r.Header)
		if sent == "" {
			fail(w, r, openai.NewError(openai.CodeInvalidKey, "", "no API key was given: send Authorization: Bearer KEY"))
			return
		}
		key := s.keys.find(sent)
		if key == nil {
			fail(w, r, openai.NewError(openai.CodeInvalidKey, "", "the API key is not valid"))
			return
		}
		recordOf(r.Context()).key = key.Name
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, key)))
	})
}

// inference lets only keys of its scope pass, and holds each to its limits. What
// a request has used is charged when it has ended, also when its client left
// before: else leaving at the last word would be free.
func (s *Server) inference(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := callerOf(r.Context())
		switch {
		case key == nil: // no keys are in use
			next.ServeHTTP(w, r)
			return
		case !key.may(ScopeInference):
			fail(w, r, openai.NewError(openai.CodePermission, "", "%s needs a key with the scope %s: this one has %s", printable(r.URL.Path), ScopeInference, ScopeAdmin))
			return
		}
		now := time.Now()
		e := key.quota.enter(now)
		key.quota.tell(w.Header(), now)
		if e != nil {
			fail(w, r, e)
			return
		}
		defer func() {
			if rec := recordOf(r.Context()); !rec.detached {
				key.leave(rec)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// leave ends a request of the key, and charges what it has used.
func (k *apiKey) leave(rec *record) {
	k.quota.leave(time.Now(), max(rec.usage.PromptTokens, rec.spent.PromptTokens), max(rec.usage.CompletionTokens, rec.spent.CompletionTokens))
}

// admins lets only admin keys pass. Without any there is nobody to ask for
// one, and the routes stay shut: they show and delete what others stored.
func (s *Server) admins(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !s.keys.some(ScopeAdmin):
			fail(w, r, openai.NewError(openai.CodePermission, "", "%s needs an admin key, and this server has none: set THOTH_ADMIN_KEYS or THOTH_ADMIN_KEYS_FILE, or give one in a JSON file of keys the scope admin", printable(r.URL.Path)))
		case !callerOf(r.Context()).may(ScopeAdmin):
			fail(w, r, openai.NewError(openai.CodePermission, "", "%s needs an admin key: this key is for inference", printable(r.URL.Path)))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// mayPin refuses a pin to a key without the admin scope: what is pinned takes the
// room of all others. Where no keys are in use everybody is trusted.
func (s *Server) mayPin(ctx context.Context, c openai.CacheControl) *openai.Error {
	if !c.Pin || !s.keys.used() || callerOf(ctx).may(ScopeAdmin) {
		return nil
	}
	return openai.NewError(openai.CodePermission, "prompt_cache_options.pin", "prompt_cache_options.pin needs an admin key: this key is for inference")
}

// exposed are the headers a browser's script may read.
var exposed = []string{wire.HeaderRequestID, headerAnthropicID, "Retry-After", headerPath, headerLiquid, headerLiquidSaved, headerLiquidReason, headerLiquidTokens,
	headerLimit + "Requests", headerRemaining + "Requests", headerReset + "Requests", headerLimit + "Tokens", headerRemaining + "Tokens", headerReset + "Tokens"}

// methods are those some route has.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete}

// allowOrigins answers preflights, before any key is asked for: browsers send
// none with them.
func allowOrigins(origins []string) func(http.Handler) http.Handler {
	return cors.Handler(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: methods,
		AllowedHeaders: []string{"*"}, // SDKs send a dozen of their own, and [headerBypass] is ours
		ExposedHeaders: exposed,
		MaxAge:         600,
	})
}

// allowed lists the methods of a path, from the routes themselves.
func allowed(routes chi.Routes, path string) string {
	if path == routeInputTokens {
		return http.MethodPost // see namesResponse
	}
	var list []string
	for _, m := range methods {
		as := m
		if m == http.MethodHead {
			as = http.MethodGet
		}
		if routes.Match(chi.NewRouteContext(), as, path) {
			list = append(list, m)
		}
	}
	return strings.Join(list, ", ")
}
