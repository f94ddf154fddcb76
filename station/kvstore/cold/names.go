package cold

import (
	"context"
	"regexp"
	"strconv"
	"strings"

	"thoth/internal/bucket"
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

// Roots lists the folders at the top that are named like roots.
func Roots(ctx context.Context, o bucket.Objects) (roots []string, err error) {
	err = o.Top(ctx, func(o bucket.Object) error {
		if o.Folder && rootName(o.Name) {
			roots = append(roots, o.Name)
		}
		return nil
	})
	return roots, err
}
