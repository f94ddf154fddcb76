package prompt

import (
	"strings"
	"time"

	"github.com/ardanlabs/jinja"
)

// strftimeNow is the template function of that name at a fixed time: two
// renderings of one request must not differ by a second.
func strftimeNow(now time.Time) jinja.Value {
	return jinja.NewCallable("strftime_now", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		format := "%Y-%m-%d"
		if len(args) > 0 && args[0].IsString() {
			format = args[0].AsString()
		}
		return jinja.NewString(strftime(now, format)), nil
	})
}

// layouts maps the directives of C's strftime that templates use to Go's.
var layouts = map[string]string{
	"Y": "2006", "y": "06", "m": "01", "d": "02", "e": "_2", "j": "002",
	"H": "15", "I": "03", "M": "04", "S": "05", "p": "PM", "Z": "MST", "z": "-0700",
	"B": "January", "b": "Jan", "h": "Jan", "A": "Monday", "a": "Mon",
	"F": "2006-01-02", "T": "15:04:05", "D": "01/02/06", "R": "15:04",
	"-m": "1", "-d": "2", "-I": "3", "-M": "4", "-S": "5",
}

// strftime formats now; what it does not know stays as written.
func strftime(now time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		if format[i+1] == '%' {
			b.WriteByte('%')
			i++
			continue
		}
		directive := format[i+1 : i+2]
		if directive == "-" && i+2 < len(format) {
			directive = format[i+1 : i+3]
		}
		if layout, ok := layouts[directive]; ok {
			b.WriteString(now.Format(layout))
			i += len(directive)
			continue
		}
		b.WriteByte('%')
	}
	return b.String()
}
