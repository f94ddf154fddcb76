// Package rawio reads and writes sockets without a word to the Go scheduler, for the
// path of a streamed token and nothing else.
//
// An ordinary system call tells the scheduler that it may block. In a process that was
// idle, as a host is between two tokens, that wakes the runtime's monitor thread, which
// then naps, at first for 20 microseconds at a time, until all is idle again. A token is a
// read and a write, each over in a few microseconds; without the monitor it costs a host
// with one client 55 microseconds instead of 80 to 100, and with sixteen 13 instead of 16.
// What all this relies on is that a socket's call which is told not to wait does not wait
// for its peer or for room, so the scheduler need not know of it. Here it is a raw call,
// inside [syscall.RawConn], whose poller does the waiting.
//
// What the monitor does is missed then: it stops a goroutine that computes for long so
// that others run, and looks after the network when all processors are busy. A burst of
// work that begins and ends without any ordinary call does without, whatever goroutines
// it goes through. So this is for calls with little work behind them. Whoever has more
// than a few milliseconds of it behind a raw call, his own or that of who woke him, calls
// [Awake] first; and the rest is ordinary:
//   - calls of no more than [Most] bytes are raw, larger ones are ordinary;
//   - the listener's connections are read by ordinary calls: a request is, and whatever
//     is computed for it comes behind;
//   - a reader that finds bytes waiting a few times in a row, and so does not pause,
//     makes an ordinary call.
//
// Nothing else differs from package net: deadlines, closing, and errors are its own, but
// for the network "tcp" in the text of one of "tcp4". Only its own TCP and unix connections
// are read and written so; what wraps one may look at the bytes, and is called itself.
// Elsewhere than on Linux, whose calls these are, all calls are ordinary.
package rawio

// Most is the size of the largest call that is raw, in bytes: some dozens of tokens.
const Most = 16 << 10
