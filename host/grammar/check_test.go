package grammar

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheck_NamesTheLine(t *testing.T) {
	for _, c := range []struct{ name, grammar, message string }{
		{"fine", "root ::= \"a\" b*\nb ::= [0-9]{2,3}\n", ""},
		{"syntax", "root ::= b\nb ::= \"a\n", `line 2: a literal lacks its closing "`},
		{"undefined", "# one\nroot ::= b\n", "line 2: the rule b is not defined"},
		{"left recursion", "root ::= a\na ::= a \"x\" | \"y\"\n", "line 2: the rule a begins with itself (left recursion), or repeats what may be empty"},
		{"large", "root ::= \"" + strings.Repeat("a", 1<<16) + "\"", "the grammar has 65547 bytes: at most 65536 are allowed"},
		{"repetition", "root ::= \"a\"{1001}\n", "line 1: the repetition {1001} is too large: at most 1000 is allowed"},
		{"repetition in much", "root ::= \"a\"{600}\n#" + strings.Repeat("x", 8000), "line 1: the repetition {600} is too large: at most 523 is allowed"},
		{"literal parentheses", "root ::= \"a\"\nb ::= \"" + strings.Repeat("(", 129) + "\"\n", `line 2: more than 128 parentheses are open, also counting those in literals: write them as \x28 there`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Check(c.grammar, Limits{})
			if c.message == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.message)
			var is *Error
			require.ErrorAs(t, err, &is)
		})
	}
	require.EqualError(t, Check("root ::= \"a\"{11}", Limits{Repeat: 10}), "line 1: the repetition {11} is too large: at most 10 is allowed")
}
