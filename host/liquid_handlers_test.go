package host

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

const rootAuth = "Bearer root"

// storeStation is a fake station with a store: it tells an index, and notes
// what is to be deleted.
type storeStation struct {
	*fakeStation
	srv *httptest.Server

	mu      sync.Mutex
	index   *wire.KVIndex
	refusal *wire.Error
	deleted []wire.KVDeleteRequest
}

func newStoreStation(t *testing.T) *storeStation {
	f := &storeStation{fakeStation: newFakeStation(t), index: &wire.KVIndex{BlockTokens: 64, Scopes: 2,
		Hot: wire.KVTier{State: "on", Blocks: 3}, Warm: wire.KVTier{State: "on", Blocks: 11, Bytes: 4096}, Cold: wire.KVTier{State: "off", Reason: "no store"},
		Top: []wire.KVPrefix{{Key: "ab", Scope: "s1", Group: "g", Tokens: 704, Hits: 3, TokensSaved: 2112}}}}
	f.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, wire.RouteKVSession) {
			f.fakeStation.serve(w, r)
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		switch {
		case f.refusal != nil:
			(&frames{w}).refuse(f.refusal)
		case r.Method == http.MethodGet && r.URL.Path == wire.RouteKVSession:
			_ = json.NewEncoder(w).Encode(f.index)
		case r.URL.Path == wire.RouteKVSession+"/"+wire.VerbDelete:
			var q wire.KVDeleteRequest
			if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
				t.Errorf("the host sent a body that does not decode: %v", err)
			}
			f.deleted = append(f.deleted, q)
			_ = json.NewEncoder(w).Encode(wire.KVDeleteResponse{Blocks: 11, Bytes: 4096})
		default:
			(&frames{w}).refuse(&wire.Error{Code: wire.CodeNoRoute, Message: "no route"})
		}
	}))
	t.Cleanup(f.srv.Close)
	return f
}

// deletions are the requests so far that named something.
func (f *storeStation) deletions() []wire.KVDeleteRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]wire.KVDeleteRequest(nil), f.deleted...)
}

func (f *storeStation) refuse(e *wire.Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refusal = e
}

func newStoreHost(t *testing.T, f *storeStation) *testHost {
	h := startHost(t, f.srv.URL, func(o *Options) { o.AdminKeys = []string{"root"} })
	h.await(http.StatusOK)
	return h
}

func TestLiquid_DeleteNamesExactlyOneThing(t *testing.T) {
	f := newStoreStation(t)
	h := newStoreHost(t, f)
	scope, common := "a1b2", ""
	for _, c := range []struct {
		query string
		want  wire.KVDeleteRequest
	}{
		{"all=true", wire.KVDeleteRequest{All: true}},
		{"key=support%3Av2", wire.KVDeleteRequest{Group: "support:v2"}},
		{"key=..%2F..%2Fetc%00", wire.KVDeleteRequest{Group: "../../etc\x00"}},
		{"scope=a1b2", wire.KVDeleteRequest{Scope: &scope}},
		{"scope=", wire.KVDeleteRequest{Scope: &common}},
	} {
		before := len(f.deletions())
		r := h.do("DELETE", "/liquid?"+c.query, "", "Authorization", rootAuth)
		require.Equal(t, 200, r.status, r.body)
		require.Equal(t, map[string]any{"blocks": 11., "bytes": 4096.}, r.json(t))
		require.Equal(t, []wire.KVDeleteRequest{c.want}, f.deletions()[before:])
	}
	before := len(f.deletions())
	for query, says := range map[string]string{
		"":                     "0 parameters were given",
		"all=true&key=x":       "2 parameters were given",
		"key=x&scope=y":        "2 parameters were given",
		"all=true&all=true":    "2 parameters were given",
		"all":                  "only true is allowed",
		"all=false":            "only true is allowed",
		"all=1":                "only true is allowed",
		"key=":                 "key is empty",
		"group=x":              "group is not known",
		"scope=x&dry_run=true": "dry_run is not known",
		"All=true":             "All is not known",
		"key=%zz":              "malformed",
	} {
		r := h.do("DELETE", "/liquid?"+query, "", "Authorization", rootAuth)
		require.Equal(t, 400, r.status, "%s: %s", query, r.body)
		require.Equal(t, "invalid_value", r.code(t))
		require.Contains(t, r.body, says, query)
		for _, name := range []string{"all=true", "key=PROMPT_CACHE_KEY", "scope=SCOPE"} {
			require.Contains(t, r.body, name, query)
		}
	}
	require.Len(t, f.deletions(), before, "nothing is deleted by a request that is refused")
}

func TestLiquid_OtherMethodsAreRefused(t *testing.T) {
	h := newStoreHost(t, newStoreStation(t))
	r := h.do("POST", "/liquid", "{}", "Authorization", rootAuth)
	require.Equal(t, 405, r.status)
	require.Equal(t, "GET, HEAD, DELETE", r.header.Get("Allow"))
	require.Equal(t, 200, h.do("HEAD", "/liquid", "", "Authorization", rootAuth).status)
}

func TestLiquid_AStationThatIsAwayIsSaid(t *testing.T) {
	f := newStoreStation(t)
	h := newStoreHost(t, f)
	for _, c := range []struct {
		refusal *wire.Error
		code    string
	}{
		{&wire.Error{Code: wire.CodeLoading, Message: "loading"}, "model_loading"},
		{&wire.Error{Code: wire.CodeDraining, Message: "draining"}, "station_unavailable"},
	} {
		f.refuse(c.refusal)
		for _, method := range []string{"GET", "DELETE"} {
			r := h.do(method, "/liquid?all=true", "", "Authorization", rootAuth)
			require.Equal(t, 503, r.status, r.body)
			require.Equal(t, c.code, r.code(t))
			require.NotEmpty(t, r.header.Get("Retry-After"))
		}
	}
	f.srv.CloseClientConnections()
	f.srv.Close()
	for _, method := range []string{"GET", "DELETE"} {
		r := h.do(method, "/liquid?all=true", "", "Authorization", rootAuth)
		require.Equal(t, 503, r.status, r.body)
		require.Equal(t, "station_unavailable", r.code(t))
	}
}

func TestLiquid_AStationWithoutAStore(t *testing.T) {
	h := newHost(t, newFakeStation(t), func(o *Options) { o.AdminKeys = []string{"root"} })
	r := h.get("/liquid", "Authorization", rootAuth)
	require.Equal(t, 200, r.status, r.body)
	require.Nil(t, r.json(t)["index"])
	require.Equal(t, false, r.json(t)["liquid_memory"])
	require.NotEmpty(t, r.json(t)["liquid_reason"])
	r = h.do("DELETE", "/liquid?all=true", "", "Authorization", rootAuth)
	require.Equal(t, 503, r.status)
	require.Contains(t, r.body, "stores no prefixes")
}
