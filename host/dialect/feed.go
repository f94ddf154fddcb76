package dialect

import "strings"

// feed holds a text that grows behind while its head is cut off, so that what
// remains is not copied with each piece that comes.
type feed struct{ all strings.Builder }

// add is the rest, which is what is left of what add returned last, with more
// behind it.
func (f *feed) add(rest, more string) string {
	if len(rest) > f.all.Len() || len(rest) < f.all.Len()/2 {
		f.all.Reset()
		f.all.WriteString(rest)
	}
	f.all.WriteString(more)
	return f.all.String()[f.all.Len()-len(rest)-len(more):]
}
