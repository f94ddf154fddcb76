// Package stored keeps responses, so that a client may ask for one again, or go on
// from it by previous_response_id: after a restart, and from another host on the same
// folder or bucket.
//
// A [Record] is one response with the input it was asked by, under its id and the
// *scope* of the caller whose it is; another scope does not find it. Each is one
// object of a package bucket's, named scope/id by hashes, so no name tells who or what,
// in a folder of the store's own: nothing beside that is looked at or touched. A *chain*
// is a record with those before it, by previous.
//
// The index says what lies in the bucket and when each was last used: from the sweeps,
// and from what was put, got and deleted here. It is trusted for sizes and ages, never
// for a record's being there: that, the bucket alone knows.
//
// # Invariants
//
// The store holds at most its budget of what the index knows. A record that needs room
// pushes out those unused the longest of the scope that has the most, a use of any of a
// chain being a use of all: who stores much takes nothing from one that has less. A
// record ends a TTL after it was created, used or not: it is not found from then on,
// and its object goes with the next sweep.
//
// A record that was put is whole, and found from then on by every process and after a
// crash of any. In a folder a put does not wait for the disk, only a replace does: a loss of
// power takes what the system has not written down, on Linux usually of the last half
// minute, and may undo a delete. A record that it tears fails its checksum.
//
// What fails a check is deleted, counted, and answered like what is not there. With a
// key, records are sealed and their names are made with it: with another, nothing is
// found.
//
// Who reads may be charged before anything is read, by a [Charge].
//
// No call takes longer than its timeout, even when the operating system hangs in it;
// a bucket that fails three times in a row is left alone and tried again behind.
// Opening and listing are behind as well: neither a start nor a request waits for
// them. Close waits for what runs.
package stored
