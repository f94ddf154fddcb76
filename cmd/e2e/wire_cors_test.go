//go:build e2e

package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

const (
	page       = "http://localhost:5173"
	sdkHeaders = "authorization,content-type,x-stainless-os,x-stainless-lang,x-stainless-retry-count"
)

func (s *server) preflight(t *testing.T, origin string) reply {
	t.Helper()
	return s.do(t, http.MethodOptions, chatPath, nil, "Origin", origin,
		"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", sdkHeaders)
}

// openTo checks that a page of origin may read this reply.
func (r reply) openTo(t *testing.T, origin string) {
	t.Helper()
	require.Contains(t, []string{origin, "*"}, r.Header.Get("Access-Control-Allow-Origin"))
}

func TestCORS_ListedOriginMayCallWithAndWithoutKeys(t *testing.T) {
	const key = "sk-test-1"
	for name, keys := range map[string][]string{"open": nil, "with keys": {"THOTH_API_KEYS=" + key}} {
		t.Run(name, func(t *testing.T) {
			model := wire.Model{Name: "m", Digest: "d", ChatTemplate: plainTemplate}
			s := hostBefore(t, standIn(t, model), append(keys, "THOTH_MODEL_NAME=test-model", "THOTH_CORS_ORIGINS="+page)...)
			s.serves(t)

			r := s.preflight(t, page)
			require.Contains(t, []int{200, 204}, r.Status)
			r.openTo(t, page)
			require.Contains(t, r.Header.Get("Access-Control-Allow-Methods"), "POST")
			allowed := strings.ToLower(r.Header.Get("Access-Control-Allow-Headers"))
			for _, h := range strings.Split(sdkHeaders, ",") {
				require.Contains(t, allowed, h, "a browser does not take * for authorization")
			}

			header := []string{"Origin", page, "Authorization", "Bearer " + key}
			whole := s.do(t, http.MethodPost, chatPath, P(), header...)
			require.NotEmpty(t, whole.Text(t))
			whole.openTo(t, page)
			require.NotEmpty(t, whole.Header.Get("Access-Control-Expose-Headers"))
			stream := s.do(t, http.MethodPost, chatPath, P(obj{"stream": true}), header...)
			require.Contains(t, stream.Header.Get("Content-Type"), "text/event-stream")
			stream.openTo(t, page)
			bad := s.do(t, http.MethodPost, chatPath, P(obj{"temperature": 9}), header...)
			bad.Err(t, 400)
			bad.openTo(t, page)
			missing := s.do(t, http.MethodGet, "/v1/nope", nil, header...)
			missing.Err(t, 404)
			missing.openTo(t, page)
			if keys != nil {
				none := s.do(t, http.MethodPost, chatPath, P(), "Origin", page)
				require.Equal(t, "invalid_api_key", none.Err(t, 401)["code"])
				none.openTo(t, page)
			}

			require.Empty(t, s.preflight(t, "http://elsewhere.example").Header.Get("Access-Control-Allow-Origin"))
		})
	}
}

func TestCORS_NotOfferedIsACleanRefusal(t *testing.T) {
	defer shared.unharmed(t)()
	r := shared.preflight(t, page)
	r.Err(t, 405)
	require.Empty(t, r.Header.Get("Access-Control-Allow-Origin"))
	answered := shared.do(t, http.MethodPost, chatPath, P(), "Origin", page)
	require.NotEmpty(t, answered.Text(t), "a program may send an Origin")
	require.Empty(t, answered.Header.Get("Access-Control-Allow-Origin"))
}
