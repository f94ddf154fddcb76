package host

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/cors"

	"thoth/host/openai"
	"thoth/station/wire"
)

// keyring holds digests of the keys: equal lengths, so that the comparison
// takes the same time whatever was sent.
type keyring [][sha256.Size]byte

func newKeyring(keys []string) keyring {
	k := make(keyring, len(keys))
	for i, key := range keys {
		k[i] = sha256.Sum256([]byte(key))
	}
	return k
}

// has compares with every key, without stopping at a match.
func (k keyring) has(key string) bool {
	sum := sha256.Sum256([]byte(key))
	found := 0
	for i := range k {
		found |= subtle.ConstantTimeCompare(sum[:], k[i][:])
	}
	return found == 1
}

// authenticate asks for a key on every route but the health probes.
func (s *Server) authenticate(next http.Handler) http.Handler {
	if len(s.keys) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if openRoutes[r.URL.Path] {
			next.ServeHTTP(w, r)
			return
		}
		scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		switch {
		case !strings.EqualFold(scheme, "Bearer") || strings.TrimSpace(key) == "":
			fail(w, r, openai.NewError(openai.CodeInvalidKey, "", "no API key was given: send Authorization: Bearer KEY"))
		case !s.keys.has(strings.TrimSpace(key)):
			fail(w, r, openai.NewError(openai.CodeInvalidKey, "", "the API key is not valid"))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// exposed are the headers a browser's script may read.
var exposed = []string{wire.HeaderRequestID, "Retry-After", headerPath, headerLiquid, headerLiquidSaved}

// allowOrigins answers preflights, before any key is asked for: browsers send
// none with them.
func allowOrigins(origins []string) func(http.Handler) http.Handler {
	return cors.Handler(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPost},
		AllowedHeaders: []string{"*"}, // SDKs send a dozen of their own
		ExposedHeaders: exposed,
		MaxAge:         600,
	})
}

// allowed lists the methods of a path, from the routes themselves.
func allowed(routes chi.Routes, path string) string {
	var methods []string
	for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		as := m
		if m == http.MethodHead {
			as = http.MethodGet
		}
		if routes.Match(chi.NewRouteContext(), as, path) {
			methods = append(methods, m)
		}
	}
	return strings.Join(methods, ", ")
}
