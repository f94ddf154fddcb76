package host

import (
	"bytes"
	"sync"
)

// eventLog keeps the last events of a streamed background run, for those who read
// along and those who come back.
//
// Four of the events of a run have its whole response in them, and that may be long by
// its instructions and tools alone: it would push out all others. So the response of the
// first is kept once, as state, and what others have in common with it is no part of
// their bytes.
//
// Invariants: mu.events are numbered from mu.first without a gap; mu.bytes is the sum of
// their own bytes, at most most unless there is one only; after mu.over nothing is added.
type eventLog struct {
	most int // bytes

	mu struct {
		sync.Mutex
		state   members
		events  []logged
		first   int
		bytes   int
		over    bool
		more    chan struct{} // closed, and replaced, at each change
		readers int
	}
}

// mostReaders bounds those who read the events of one run at once: each is woken by
// every token.
const mostReaders = 16

// enter lets a reader in, who must leave; false where there are as many as may be.
func (l *eventLog) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.readers >= mostReaders {
		return false
	}
	l.mu.readers++
	return true
}

func (l *eventLog) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.readers--
}

func newEventLog(most int) *eventLog {
	l := &eventLog{most: most}
	l.mu.more = make(chan struct{})
	return l
}

const eventStreamType = "text/event-stream"

var endOfEvent = []byte("\n\n")

// add takes whole events; comments are of a connection, and no events.
func (l *eventLog) add(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.over {
		return
	}
	for len(b) > 0 {
		event := b
		if at := bytes.Index(b, endOfEvent); at >= 0 {
			event = b[:at+len(endOfEvent)]
		}
		b = b[len(event):]
		if event[0] == ':' {
			continue
		}
		e := l.logged(bytes.Clone(event))
		l.mu.events = append(l.mu.events, e)
		l.mu.bytes += e.bytes
	}
	for l.mu.bytes > l.most && len(l.mu.events) > 1 {
		l.mu.bytes -= l.mu.events[0].bytes
		l.mu.events[0] = logged{} // or the array behind it would keep it
		l.mu.events = l.mu.events[1:]
		l.mu.first++
	}
	l.changed()
}

// end says that nothing follows.
func (l *eventLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.over = true
	l.changed()
}

// changed is called with mu held.
func (l *eventLog) changed() {
	close(l.mu.more)
	l.mu.more = make(chan struct{})
}

// from gives the events from number n on, how many there have been, and what to wait
// for where that is not all. dropped: event n is no longer held.
func (l *eventLog) from(n int) (events [][]byte, next int, over, dropped bool, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next = l.mu.first + len(l.mu.events)
	if n < l.mu.first {
		return nil, next, l.mu.over, true, l.mu.more
	}
	for i := n; i < next; i++ {
		events = append(events, l.mu.events[i-l.mu.first].whole())
	}
	return events, next, l.mu.over, false, l.mu.more
}

// size is what the log takes of memory.
func (l *eventLog) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.mu.bytes
	for _, v := range l.mu.state {
		n += len(v)
	}
	return n
}

// held is the number of the first event that is held.
func (l *eventLog) held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.first
}
