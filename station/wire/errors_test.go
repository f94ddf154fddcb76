package wire

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// statuses is the wire's table, written a second time on purpose.
var statuses = map[Code]int{
	CodeInvalid: 400, CodeUnsupported: 400, CodeContextLength: 400,
	CodeNoRoute: 404, CodeMethod: 405, CodeBusy: 409, CodeGone: 410, CodeTooLarge: 413, CodeOverloaded: 429,
	CodeCancelled: 499,
	CodeEngine:    500, CodeInternal: 500,
	CodeLoading: 503, CodeDraining: 503, CodeUnavailable: 503,
	CodeTimeout: 504,
}

func TestError_StatusOfEveryCode(t *testing.T) {
	for _, c := range declaredCodes(t) {
		want, ok := statuses[c]
		require.True(t, ok, "code %s is missing from the table of this test", c)
		require.Equal(t, want, (&Error{Code: c}).Status(), "code %s", c)
	}
	require.Len(t, declaredCodes(t), len(statuses))
}

func TestError_OnlyNoRouteIs404(t *testing.T) {
	for _, c := range declaredCodes(t) {
		require.Equal(t, c == CodeNoRoute, (&Error{Code: c}).Status() == 404, "code %s", c)
	}
}

func TestError_UnknownCodeIsAFaultOfOurs(t *testing.T) {
	require.Equal(t, 500, (&Error{Code: "of a later version"}).Status())
	require.Equal(t, "why", (&Error{Message: "why"}).Error())
}

// declaredCodes reads the constants of type Code out of the source, so that a
// new one cannot be forgotten here.
func declaredCodes(t *testing.T) []Code {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	require.NoError(t, err)
	var out []Code
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); ok && id.Name == "Code" {
			for _, v := range spec.Values {
				s, err := strconv.Unquote(v.(*ast.BasicLit).Value)
				require.NoError(t, err)
				out = append(out, Code(s))
			}
		}
		return true
	})
	require.NotEmpty(t, out)
	return out
}
