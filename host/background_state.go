package host

import (
	"bytes"
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// logged is an event as the log of a run keeps it.
type logged struct {
	parts [][]byte // the event, one after the other
	bytes int      // of those that are not shared with the run's state
}

// whole is the event as it was.
func (e logged) whole() []byte {
	if len(e.parts) == 1 {
		return e.parts[0] // never changed
	}
	return bytes.Join(e.parts, nil)
}

// members are those of a JSON object, by name.
type members map[string][]byte

// stateMark stands before the response in an event that has one; nothing else in the
// first bytes of an event looks like it, since quotes in strings are escaped.
var stateMark = []byte(`,"response":`)

const (
	stateHead = 160 // bytes before which the mark stands
	// worthSharing is from which length on a member is not kept twice.
	worthSharing = 64
)

// logged takes an event that nobody changes any more; called with mu held.
func (l *eventLog) logged(event []byte) logged {
	plain := logged{[][]byte{event}, len(event)}
	at := bytes.Index(event[:min(len(event), stateHead)], stateMark)
	if at < 0 {
		return plain
	}
	var e logged
	own := 0 // from where on the event's own bytes are not in parts yet
	share := func(from, to int, with []byte) {
		e.parts = append(e.parts, bytes.Clone(event[own:from]), with) // cloned, or all of the event would stay
		e.bytes += from - own
		own = to
	}
	first := l.mu.state == nil
	state := members{}
	err := eachMember(event[at+len(stateMark):], func(name string, from, to int) {
		from, to = from+at+len(stateMark), to+at+len(stateMark)
		value := event[from:to]
		switch {
		case to-from < worthSharing:
		case first:
			state[name] = bytes.Clone(value)
			share(from, to, state[name])
		case bytes.Equal(l.mu.state[name], value):
			share(from, to, l.mu.state[name])
		}
	})
	if err != nil {
		return plain
	}
	if first {
		l.mu.state = state
	}
	e.parts = append(e.parts, bytes.Clone(event[own:]))
	e.bytes += len(event) - own
	return e
}

// eachMember tells where the values of the object lie that raw begins with.
func eachMember(raw []byte, each func(name string, from, to int)) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return errors.New("no object")
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		key := name.String()
		v, err := d.ReadValue()
		if err != nil {
			return err
		}
		to := int(d.InputOffset())
		each(key, to-len(v), to)
	}
	return nil
}
