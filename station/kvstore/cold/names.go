package cold

import (
	"regexp"
	"strconv"
	"strings"

	"thoth/station/kvstore/block"
)

// ObjectName is the name of a block's object; tokens tells tails from full blocks.
func ObjectName(n block.Name, tokens int) string {
	s := n.Root.String() + "/" + n.Parent.String() + "/" + n.Key.String()
	if tokens < block.Tokens {
		s += "-" + strconv.Itoa(tokens)
	}
	return s
}

// ParseObjectName reads what ObjectName wrote, and nothing else.
func ParseObjectName(s string) (n block.Name, tokens int, ok bool) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 {
		return n, 0, false
	}
	key, tail, isTail := strings.Cut(parts[2], "-")
	tokens = block.Tokens
	if isTail {
		var err error
		if tokens, err = strconv.Atoi(tail); err != nil || tokens < 1 || tokens >= block.Tokens {
			return n, 0, false
		}
	}
	for i, to := range []*block.Key{&n.Root, &n.Parent, &n.Key} {
		k, err := block.ParseKey([]string{parts[0], parts[1], key}[i])
		if err != nil {
			return n, 0, false
		}
		*to = k
	}
	return n, tokens, ObjectName(n, tokens) == s // one name a block: no capitals, no "-07"
}

// rootName tells whether a folder at the top is named like a root, and so ours.
var rootName = regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString

// probePrefix begins the names of the objects that try a store out, at its top.
const probePrefix = ".thoth-probe-"

// probeName tells whether an object at the top is a probe that was left behind.
func probeName(s string) bool { return strings.HasPrefix(s, probePrefix) }
