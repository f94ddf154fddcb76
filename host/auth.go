package host

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/cors"

	"thoth/host/openai"
	"thoth/station/wire"
)

// keyKind is what a key may do; each kind may do what those before it may.
type keyKind int

const (
	keyNone      keyKind = iota // not a key of this server
	keyInference                // chats, models, numbers
	keyAdmin                    // also /liquid, its numbers in /stats, and pinning
)

// keyring holds digests of the keys: equal lengths, so that the comparison
// takes the same time whatever was sent.
type keyring struct {
	inference, admin [][sha256.Size]byte
}

func newKeyring(inference, admin []string) keyring {
	digests := func(keys []string) [][sha256.Size]byte {
		sums := make([][sha256.Size]byte, len(keys))
		for i, key := range keys {
			sums[i] = sha256.Sum256([]byte(key))
		}
		return sums
	}
	return keyring{digests(inference), digests(admin)}
}

// used tells whether requests need a key. One of either kind is enough: a
// server with an admin key alone must not be open to everybody.
func (k keyring) used() bool { return len(k.inference)+len(k.admin) > 0 }

// kind compares with every key, without stopping at a match.
func (k keyring) kind(key string) keyKind {
	sum := sha256.Sum256([]byte(key))
	among := func(keys [][sha256.Size]byte) (found int) {
		for i := range keys {
			found |= subtle.ConstantTimeCompare(sum[:], keys[i][:])
		}
		return found
	}
	inference, admin := among(k.inference), among(k.admin)
	return keyKind(subtle.ConstantTimeSelect(admin, int(keyAdmin), subtle.ConstantTimeSelect(inference, int(keyInference), int(keyNone))))
}

// caller is who sent a request.
type caller struct {
	kind  keyKind
	scope string
}

type callerKey struct{}

// callerOf is the zero caller when no keys are in use.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// scopeKey names whose stored prefixes a request may use: the hex digest of
// its key, "" when no keys are in use. It is not the digest that keys are
// compared by, since it leaves the process.
func scopeKey(ctx context.Context) string { return callerOf(ctx).scope }

func scopeOf(key string) string {
	sum := sha256.Sum256([]byte("thoth scope\x00" + key))
	return hex.EncodeToString(sum[:])
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
		scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		key = strings.TrimSpace(key)
		if !strings.EqualFold(scheme, "Bearer") || key == "" {
			fail(w, r, openai.NewError(openai.CodeInvalidKey, "", "no API key was given: send Authorization: Bearer KEY"))
			return
		}
		kind := s.keys.kind(key)
		if kind == keyNone {
			fail(w, r, openai.NewError(openai.CodeInvalidKey, "", "the API key is not valid"))
			return
		}
		ctx := context.WithValue(r.Context(), callerKey{}, caller{kind, scopeOf(key)})
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// admins lets only admin keys pass. Without any there is nobody to ask for
// one, and the routes stay shut: they show and delete what others stored.
func (s *Server) admins(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case len(s.keys.admin) == 0:
			fail(w, r, openai.NewError(openai.CodePermission, "", "%s needs an admin key, and this server has none: set THOTH_ADMIN_KEYS or THOTH_ADMIN_KEYS_FILE", printable(r.URL.Path)))
		case callerOf(r.Context()).kind != keyAdmin:
			fail(w, r, openai.NewError(openai.CodePermission, "", "%s needs an admin key: this key is for inference", printable(r.URL.Path)))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// mayPin refuses a pin to an inference key: what is pinned takes the room of
// all others. Where no keys are in use everybody is trusted.
func (s *Server) mayPin(ctx context.Context, c openai.CacheControl) *openai.Error {
	if !c.Pin || !s.keys.used() || callerOf(ctx).kind == keyAdmin {
		return nil
	}
	return openai.NewError(openai.CodePermission, "prompt_cache_options.pin", "prompt_cache_options.pin needs an admin key: this key is for inference")
}

// exposed are the headers a browser's script may read.
var exposed = []string{wire.HeaderRequestID, "Retry-After", headerPath, headerLiquid, headerLiquidSaved, headerLiquidReason, headerLiquidTokens}

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
