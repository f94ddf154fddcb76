package host

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"thoth/host/openai"
	"thoth/host/responses"
)

// getQuery is what a GET asks for.
type getQuery struct {
	include []string
	stream  bool
	next    int // number of the first event
}

func readGet(raw string) (q getQuery, e *openai.Error) {
	values, e := readQuery(raw, "include", "include[]", "stream", "starting_after", "include_obfuscation")
	if e != nil {
		return q, e
	}
	if q.include, e = readInclude(values); e != nil {
		return q, e
	}
	if v := values.Get("stream"); v != "" {
		var err error
		if q.stream, err = strconv.ParseBool(v); err != nil {
			return q, openai.NewError(openai.CodeInvalidValue, "stream", "stream is %q: allowed are true and false", printable(v))
		}
	}
	if v := values.Get("include_obfuscation"); v != "" && v != "false" {
		return q, openai.NewError(openai.CodeUnsupported, "include_obfuscation", "include_obfuscation is %q, which is not supported: events have the length of their text", printable(v))
	}
	if v := values.Get("starting_after"); v != "" {
		after, err := strconv.ParseUint(v, 10, 31)
		if err != nil {
			return q, openai.NewError(openai.CodeInvalidValue, "starting_after", "starting_after is %q: it must be the sequence_number of an event", printable(v))
		}
		if !q.stream {
			return q, openai.NewError(openai.CodeInvalidValue, "starting_after", "starting_after needs stream=true")
		}
		q.next = int(after) + 1
	}
	return q, nil
}

// readQuery reads parameters of these names. Another is an error: what a misspelt one
// asked for would not be what is answered.
func readQuery(raw string, allowed ...string) (url.Values, *openai.Error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, openai.NewError(openai.CodeInvalidValue, "", "the query is malformed")
	}
	for name, all := range values {
		switch {
		case !slices.Contains(allowed, name):
			return nil, openai.NewError(openai.CodeInvalidValue, printable(name), "%s is not known: allowed are %s", printable(name), strings.Join(allowed, ", "))
		case len(all) > 1 && !strings.HasPrefix(name, "include"):
			return nil, openai.NewError(openai.CodeInvalidValue, name, "%s is given %d times", name, len(all))
		}
	}
	return values, nil
}

// readInclude reads include as clients write a list: its name again and again, with
// brackets or without.
func readInclude(values url.Values) ([]string, *openai.Error) {
	list := slices.Concat(values["include"], values["include[]"])
	for _, v := range list {
		if v != responses.IncludeLogprobs && v != responses.IncludeEncrypted {
			return nil, openai.NewError(openai.CodeUnsupported, "include", "include has %q: allowed are %s and %s", printable(v), responses.IncludeLogprobs, responses.IncludeEncrypted)
		}
	}
	return list, nil
}

// listQuery is which page of a list is asked for.
type listQuery struct {
	limit int
	after string // id of the last item of the page before
	asc   bool
}

const (
	defaultPage = 20
	mostOfPage  = 100
)

func readList(raw string) (q listQuery, e *openai.Error) {
	values, e := readQuery(raw, "include", "include[]", "limit", "order", "after")
	if e != nil {
		return q, e
	}
	if _, e = readInclude(values); e != nil {
		return q, e
	}
	q = listQuery{limit: defaultPage, after: values.Get("after")}
	if v := values.Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > mostOfPage {
			return q, openai.NewError(openai.CodeInvalidValue, "limit", "limit is %q: it must be from 1 to %d", printable(v), mostOfPage)
		}
		q.limit = n
	}
	switch v := values.Get("order"); v {
	case "", "desc":
	case "asc":
		q.asc = true
	default:
		return q, openai.NewError(openai.CodeInvalidValue, "order", "order is %q: allowed are asc and desc", printable(v))
	}
	return q, nil
}

// of is the page of items, which come in the order they were given in, and whether
// there are more behind it.
func (q listQuery) of(items []jsontext.Value) (page []jsontext.Value, more bool, e *openai.Error) {
	if !q.asc {
		slices.Reverse(items)
	}
	if q.after != "" {
		at := slices.IndexFunc(items, func(i jsontext.Value) bool { return responses.IDOf(i) == q.after })
		if at < 0 {
			return nil, false, openai.NewError(openai.CodeInvalidValue, "after", "after is %q: it must be the id of an input item of this response", printable(q.after))
		}
		items = items[at+1:]
	}
	n := min(q.limit, len(items))
	return items[:n], n < len(items), nil
}
