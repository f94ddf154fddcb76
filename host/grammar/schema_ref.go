package grammar

import (
	"net/url"
	"strconv"
	"strings"
)

// resolve finds what a $ref points at: the document's root, or a place in it
// named by a JSON pointer. Nothing outside the document is ever fetched.
func (c *compiler) resolve(path string, v *value) (*schema, error) {
	if v.kind != '"' {
		return nil, fail(path, "must be a string")
	}
	ref := v.text
	if id := c.document.get("$id"); id != nil && id.kind == '"' && id.text != "" {
		// What goes on behind the name otherwise is another document's name.
		if rest, ok := strings.CutPrefix(ref, strings.TrimSuffix(id.text, "#")); ok && (rest == "" || rest[0] == '#') {
			ref = "#" + strings.TrimPrefix(rest, "#")
		}
	}
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok || pointer != "" && pointer[0] != '/' {
		return nil, fail(path, "%q is not supported, a reference is # or a JSON pointer such as #/$defs/name", short(v.text))
	}
	pointer, err := url.PathUnescape(pointer)
	if err != nil {
		return nil, fail(path, "%q has a malformed %% escape", short(v.text))
	}
	at, place, tokens := c.document, "", strings.Split(pointer, "/")[1:]
	for i, token := range tokens {
		if i > 0 && at.get("$id") != nil {
			return nil, fail(path, "%q leads through a schema with an $id of its own, which is not supported", short(v.text))
		}
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		next := at.get(token)
		if next != nil {
			place = below(place, token)
		} else if n, err := strconv.Atoi(token); err == nil && at.kind == '[' && n >= 0 && n < len(at.items) && token == strconv.Itoa(n) {
			next, place = at.items[n], element(place, n)
		}
		if next == nil {
			return nil, fail(path, "%q leads nowhere", short(v.text))
		}
		at = next
	}
	return c.at(at, place, (len(tokens)+1)/2), nil
}
