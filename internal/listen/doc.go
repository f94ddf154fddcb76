// Package listen makes room for a listener on a unix socket. A process that was
// killed leaves its socket behind, and its successor could not listen there.
// The host, the station and the supervisor all meet such sockets, and each must
// decide the same way what may be removed.
//
// It also ends a server without cutting the answers that are on their way.
//
// Invariant. Only a socket that refuses connections is removed: one that a
// process answers on, or a file of any other kind, is left alone.
package listen
