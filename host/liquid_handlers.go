package host

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"thoth/host/openai"
	"thoth/liquid"
	"thoth/station/wire"
)

// How long the station may take to tell what it stores, and to delete it: a
// bucket is listed and emptied object by object.
const (
	liquidLookTimeout   = 5 * time.Second
	liquidDeleteTimeout = 5 * time.Minute
)

// liquidReport answers GET /liquid: what this process knows and has seen of
// liquid memory, and what the station stores.
type liquidReport struct {
	liquid.Report
	Index *wire.KVIndex `json:"index"` // null where the station stores nothing
}

// getLiquid is GET /liquid.
func (s *Server) getLiquid(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), liquidLookTimeout)
	defer cancel()
	index, err := s.o.Station.KVIndex(ctx)
	if err != nil && !storesNothing(err) {
		fail(w, r, openai.FromWire(err))
		return
	}
	writeJSON(w, http.StatusOK, liquidReport{s.memory.Report(ctx), index})
}

// liquidDeleted answers DELETE /liquid.
type liquidDeleted struct {
	Blocks int   `json:"blocks"`
	Bytes  int64 `json:"bytes"`
}

// deleteLiquid is DELETE /liquid: all that is stored, what was stored under a
// prompt_cache_key, or a scope. A running request keeps what it has restored.
func (s *Server) deleteLiquid(w http.ResponseWriter, r *http.Request) {
	what, e := parseDelete(r.URL.RawQuery)
	if e != nil {
		fail(w, r, e)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), liquidDeleteTimeout)
	defer cancel()
	got, err := s.o.Station.KVDelete(ctx, "", what)
	if err != nil {
		e := openai.FromWire(err)
		if storesNothing(err) {
			e = openai.NewError(openai.CodeUnavailable, "", "this station stores no prefixes: it has no /kv-session")
		}
		fail(w, r, e)
		return
	}
	s.o.Log.Info().Str("id", recordOf(r.Context()).id).Int("blocks", got.Blocks).Int64("bytes", got.Bytes).Msg("stored prefixes deleted on request")
	writeJSON(w, http.StatusOK, liquidDeleted{got.Blocks, got.Bytes})
}

const deleteAllowed = "give exactly one of all=true, key=PROMPT_CACHE_KEY and scope=SCOPE"

// parseDelete reads what to delete. A misspelt parameter beside a right one is
// an error too: what is deleted does not come back.
func parseDelete(query string) (*wire.KVDeleteRequest, *openai.Error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil, openai.NewError(openai.CodeInvalidValue, "", "the query is malformed: %s", deleteAllowed)
	}
	var names []string
	given := 0
	for name, values := range q {
		names = append(names, name)
		given += len(values)
	}
	slices.Sort(names)
	for _, name := range names {
		if name != "all" && name != "key" && name != "scope" {
			return nil, openai.NewError(openai.CodeInvalidValue, printable(name), "%s is not known: %s", printable(name), deleteAllowed)
		}
	}
	if given != 1 {
		return nil, openai.NewError(openai.CodeInvalidValue, "", "%d parameters were given: %s", given, deleteAllowed)
	}
	switch value := q.Get(names[0]); names[0] {
	case "all":
		if value != "true" {
			return nil, openai.NewError(openai.CodeInvalidValue, "all", "all is %q: only true is allowed; %s", printable(value), deleteAllowed)
		}
		return &wire.KVDeleteRequest{All: true}, nil
	case "key":
		if value == "" {
			return nil, openai.NewError(openai.CodeInvalidValue, "key", "key is empty: %s", deleteAllowed)
		}
		return &wire.KVDeleteRequest{Group: value}, nil
	default: // empty is the common scope, of servers without keys
		return &wire.KVDeleteRequest{Scope: &value}, nil
	}
}

// storesNothing tells a station that has no /kv-session, or has it turned off.
func storesNothing(err error) bool {
	var we *wire.Error
	return errors.As(err, &we) && (we.Code == wire.CodeNoRoute || we.Code == wire.CodeUnsupported)
}
