package host

import (
	"context"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/host/openai"
)

func TestAuth_KindsOfKeysAndWhatTheyMayDo(t *testing.T) {
	station := newFakeStation(t)
	inference := func(o *Options) { o.APIKeys = []string{"user-one", "user-two"} }
	admin := func(o *Options) { o.AdminKeys = []string{"root-one", "root-two"} }
	for _, c := range []struct {
		name    string
		change  []func(*Options)
		auth    string
		chat    int
		liquid  int
		message string // of the refusal of /liquid
	}{
		{"no keys", nil, "", 200, 403, "THOTH_ADMIN_KEYS or THOTH_ADMIN_KEYS_FILE"},
		{"no keys, one sent", nil, "Bearer any", 200, 403, "THOTH_ADMIN_KEYS"},
		{"inference keys, none sent", []func(*Options){inference}, "", 401, 401, "no API key"},
		{"inference keys, wrong", []func(*Options){inference}, "Bearer user", 401, 401, "not valid"},
		{"inference keys, right", []func(*Options){inference}, "Bearer user-two", 200, 403, "THOTH_ADMIN_KEYS"},
		{"both, none sent", []func(*Options){inference, admin}, "", 401, 401, "no API key"},
		{"both, wrong", []func(*Options){inference, admin}, "Bearer root", 401, 401, "not valid"},
		{"both, inference", []func(*Options){inference, admin}, "Bearer user-one", 200, 403, "this key is for inference"},
		{"both, admin", []func(*Options){inference, admin}, "Bearer root-two", 200, 0, ""},
		{"admin alone, none sent", []func(*Options){admin}, "", 401, 401, "no API key"},
		{"admin alone, admin", []func(*Options){admin}, "bearer  root-one ", 200, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t, station, c.change...)
			require.Equal(t, c.chat, h.do("POST", "/v1/chat/completions", body(), "Authorization", c.auth).status)
			for _, method := range []string{"GET", "DELETE"} {
				r := h.do(method, "/liquid?all=true", "", "Authorization", c.auth)
				if c.liquid == 0 {
					require.NotContains(t, []int{401, 403}, r.status, r.body)
					continue
				}
				require.Equal(t, c.liquid, r.status, "%s %s", method, r.body)
				require.Equal(t, map[int]string{401: "invalid_api_key", 403: "insufficient_permissions"}[c.liquid], r.code(t))
				require.Contains(t, r.body, c.message)
			}
			for _, path := range []string{"/health", "/livez", "/readyz"} {
				require.Equal(t, 200, h.get(path).status)
			}
			require.NotContains(t, h.logs.String(), "root-")
			require.NotContains(t, h.logs.String(), "user-")
		})
	}
}

// callAs runs f in a request of a caller with auth, where keys are in use as
// the options say.
func callAs(t *testing.T, o Options, auth string, f func(*Server, context.Context)) {
	t.Helper()
	keys, err := o.allKeys()
	require.NoError(t, err)
	s := &Server{keys: newKeyring(keys)}
	r := httptest.NewRequest("GET", "/x", nil)
	r = r.WithContext(context.WithValue(r.Context(), recordKey{}, new(record)))
	r.Header.Set("Authorization", auth)
	called := false
	s.authenticate(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		called = true
		f(s, r.Context())
	})).ServeHTTP(httptest.NewRecorder(), r)
	require.True(t, called)
}

func TestAuth_ScopeIsOfTheKeyAndNotTheKey(t *testing.T) {
	o := Options{APIKeys: []string{"a", "b"}, AdminKeys: []string{"c"}}
	scopes := map[string]bool{}
	for _, key := range []string{"a", "b", "c"} {
		callAs(t, o, "Bearer "+key, func(s *Server, ctx context.Context) {
			scope := scopeKey(ctx)
			require.Regexp(t, `^[0-9a-f]{64}$`, scope)
			scopes[scope] = true
			for _, k := range s.keys {
				require.NotContains(t, scope, hex.EncodeToString(k.SHA256[:]))
			}
			// The same on another server: replicas share a store.
			callAs(t, Options{APIKeys: []string{key}}, "Bearer "+key, func(_ *Server, other context.Context) {
				require.Equal(t, scope, scopeKey(other))
			})
		})
	}
	require.Len(t, scopes, 3)
	callAs(t, Options{}, "Bearer a", func(_ *Server, ctx context.Context) { require.Empty(t, scopeKey(ctx)) })
	require.Empty(t, scopeKey(context.Background()))
}

func TestAuth_PinningIsForAdmins(t *testing.T) {
	o := Options{APIKeys: []string{"user"}, AdminKeys: []string{"root"}}
	pin := openai.CacheControl{Pin: true, TTL: time.Hour}
	callAs(t, o, "Bearer user", func(s *Server, ctx context.Context) {
		require.Nil(t, s.mayPin(ctx, openai.CacheControl{TTL: time.Hour}), "a lifetime is for everybody")
		e := s.mayPin(ctx, pin)
		require.Equal(t, 403, e.Status())
		require.Equal(t, "prompt_cache_options.pin", *e.Param)
	})
	callAs(t, o, "Bearer root", func(s *Server, ctx context.Context) { require.Nil(t, s.mayPin(ctx, pin)) })
	callAs(t, Options{}, "", func(s *Server, ctx context.Context) { require.Nil(t, s.mayPin(ctx, pin)) })
}

func TestAuth_OptionsRefuseAKeyOfTwoKinds(t *testing.T) {
	station := newFakeStation(t)
	for _, change := range []func(*Options){
		func(o *Options) { o.APIKeys, o.AdminKeys = []string{"k"}, []string{"x", "k"} },
		func(o *Options) { o.AdminKeys = []string{" k"} },
		func(o *Options) { o.AdminKeys = []string{""} },
	} {
		o := newHost(t, station).o
		change(&o)
		_, err := New(o)
		require.Error(t, err)
		require.NotContains(t, err.Error(), `"k"`)
	}
}

func TestAuth_BrowsersMayUseTheLiquidHeadersAndRoutes(t *testing.T) {
	origin := "http://localhost:5173"
	h := newHost(t, newFakeStation(t), func(o *Options) { o.CORSOrigins = []string{origin} })
	for _, method := range []string{"GET", "POST", "DELETE"} {
		r := h.do("OPTIONS", "/liquid", "", "Origin", origin, "Access-Control-Request-Method", method, "Access-Control-Request-Headers", "x-thoth-liquid,authorization")
		require.Contains(t, []int{200, 204}, r.status)
		require.Equal(t, origin, r.header.Get("Access-Control-Allow-Origin"), method)
		require.Contains(t, r.header.Get("Access-Control-Allow-Methods"), method)
		require.Contains(t, strings.ToLower(r.header.Get("Access-Control-Allow-Headers")), "x-thoth-liquid")
	}
	got := strings.Split(strings.ToLower(h.get("/v1/models", "Origin", origin).header.Get("Access-Control-Expose-Headers")), ", ")
	for _, want := range []string{"X-Request-Id", "Request-Id", "X-Thoth-Path", "X-Thoth-Liquid-Memory", "X-Thoth-Liquid-Kv-Saved", "X-Thoth-Liquid-Miss-Reason", "X-Thoth-Liquid-Prefix-Tokens"} {
		require.Contains(t, got, strings.ToLower(want))
	}
}
