package grammar

import (
	"maps"
	"slices"
	"strings"
)

// Pieces of the formats' patterns.
const (
	// Years begin with 1, and 29 February comes in leap years only.
	dateText = `((000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})-` +
		`((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))` +
		`|(\d\d(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)-02-29)`

	// No leap seconds: which of them there were is in no pattern.
	timeText = `([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)`

	daysText  = `(\d{1,6}D|\d{1,6}M(\d{1,6}D)?|\d{1,6}Y(\d{1,6}M(\d{1,6}D)?)?)`
	hoursText = `T(\d{1,6}H(\d{1,6}M(\d{1,6}S)?)?|\d{1,6}M(\d{1,6}S)?|\d{1,6}S)`

	byteText  = `(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
	hexText   = `[0-9A-Fa-f]`
	groupText = hexText + `{1,4}`

	labelText = `[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?`
	atomText  = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
	urlText   = `([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})`
)

// formats are the patterns that all match the whole of a string of the format.
// They take the part of each format that its validators agree on and that people
// write.
var formats = map[string][]string{
	// RFC 3339
	"date":      {dateText},
	"time":      {timeText},
	"date-time": {dateText + `T` + timeText},
	"duration":  {`P(` + daysText + `(` + hoursText + `)?|` + hoursText + `|\d{1,6}W)`},

	// RFC 4122
	"uuid": {hexText + `{8}(-` + hexText + `{4}){3}-` + hexText + `{12}`},

	// RFC 1123, RFC 5321. A whole name keeps to the 63 characters of one label.
	"hostname": {labelText + `(\.` + labelText + `)*`, `.{1,63}`},
	"email": {
		atomText + `(\.` + atomText + `)*@(` + labelText + `\.)+[A-Za-z]{2,}`,
		`[^@]{1,64}@[^@]{1,63}`,
	},

	"ipv4": {byteText + `(\.` + byteText + `){3}`},
	"ipv6": {strings.ReplaceAll(`(H:){7}H|(H:){1,7}:|(H:){1,6}:H|(H:){1,5}(:H){1,2}|(H:){1,4}(:H){1,3}`+
		`|(H:){1,3}(:H){1,4}|(H:){1,2}(:H){1,5}|H:(:H){1,6}|:((:H){1,7}|:)`, "H", groupText)},

	// RFC 3986, with a scheme.
	"uri": {`[A-Za-z][A-Za-z0-9+.-]{0,30}:` +
		`(//` + labelText + `(\.` + labelText + `)*(:\d{1,4})?(/` + urlText + `*)*|` + urlText + `+(/` + urlText + `*)*)` +
		`(\?(` + urlText + `|[/?])*)?(#(` + urlText + `|[/?])*)?`},
}

// format is the automaton of a format.
func (b *Builder) format(name string) (dfa, error) {
	patterns, ok := formats[name]
	if !ok {
		known := strings.Join(slices.Sorted(maps.Keys(formats)), ", ")
		return nil, failure("the format %.60q cannot be enforced: those that can are %s", name, known)
	}
	key := "format " + name
	if d, ok := b.texts[key]; ok {
		return d, nil
	}
	var d dfa
	for _, pattern := range patterns {
		next, err := b.compile(pattern, false)
		if err == nil && d != nil {
			next, err = b.both(d, next)
		}
		if err != nil {
			return nil, err
		}
		next.trim()
		d = next
	}
	b.texts[key] = d
	return d, nil
}
