// Package kv is the operator's view of a cold store: what lies in it, whether it
// is whole, and moving or removing it.
//
// It works on the folder or bucket itself, beside any stations that use it, and
// starts none of their machinery: nothing is evicted or swept here. Objects are
// whole or absent at all times, so a list is a snapshot of a moving thing and a copy of it
// is a copy of whole blocks.
//
// What a check finds is said by place, root/parent/key, which is also what rm takes.
// Text and token ids are never shown.
package kv
