package station

import (
	"thoth/station/wire"
)

// kvCounts are the loop's numbers of KV sessions.
type kvCounts struct {
	loads, saves       uint64
	asked, written     uint64 // tokens
	coalesced          uint64
	scattered          uint64
	short              map[wire.KVReason]uint64
	hotHits, hotTokens uint64

	exportSeconds, importSeconds float64
	exportBytes, importBytes     uint64

	blockSeconds float64 // of copying one block out, moving average
	credit       float64 // seconds that copies may take beside running calls
}

// kvIndex is what the loop knows of the index; the store knows the rest.
func (l *loop) kvIndex() *wire.KVIndex {
	n := &l.kv
	x := &wire.KVIndex{Loads: n.loads, Saves: n.saves, TokensAsked: n.asked, TokensWritten: n.written, Coalesced: n.coalesced, Scattered: n.scattered,
		Short:         make(map[string]uint64, len(n.short)),
		ExportSeconds: n.exportSeconds, ExportBytes: n.exportBytes, ImportSeconds: n.importSeconds, ImportBytes: n.importBytes}
	for reason, count := range n.short {
		x.Short[string(reason)] = count
	}
	if n.importSeconds > 0 {
		x.ImportGBps = float64(n.importBytes) / n.importSeconds / 1e9
	}
	if n.exportSeconds > 0 {
		x.ExportGBps = float64(n.exportBytes) / n.exportSeconds / 1e9
	}
	x.Hot = wire.KVTier{State: "on", BudgetBytes: int64(l.pool.cells) * int64(l.pool.cellBytes), Hits: n.hotHits, HitTokens: n.hotTokens}
	for _, s := range l.pool.residents {
		x.Pending += len(s.copies)
		if s.memory != nil {
			x.Hot.Blocks++
			x.Hot.Bytes += int64(s.pos-s.shared) * int64(l.pool.cellBytes)
		}
	}
	x.Hot.UsableBytes = x.Hot.Bytes
	return x
}

// kvIndex joins the loop's last word with the store's.
func (st *Station) kvIndex(l *loop) *wire.KVIndex {
	x := l.store.Index()
	if p := l.gauges.kv.Load(); p != nil {
		x.Hot, x.Pending, x.Loads, x.Saves = p.Hot, p.Pending, p.Loads, p.Saves
		x.TokensAsked, x.TokensWritten, x.Coalesced, x.Short = p.TokensAsked, p.TokensWritten, p.Coalesced, p.Short
		x.Scattered, x.ExportSeconds, x.ExportBytes, x.ExportGBps = p.Scattered, p.ExportSeconds, p.ExportBytes, p.ExportGBps
		x.ImportSeconds, x.ImportBytes, x.ImportGBps = p.ImportSeconds, p.ImportBytes, p.ImportGBps
	}
	return &x
}

// forgetMemory makes sequences unfindable, and keeps nothing of them, whose blocks
// are deleted on request. Of single blocks it is not known who has them: all are
// forgotten.
func (l *loop) forgetMemory(q *wire.KVDeleteRequest) {
	forget := func(s *sequence) {
		m := s.memory
		if m == nil || !q.All && (q.Scope != nil && *q.Scope != m.scope.Name || q.Group != "" && q.Group != m.group) {
			return
		}
		s.dropCopies(0)
		s.memory = nil
	}
	for s := range l.sequences() {
		forget(s)
	}
	for s := l.parkedEmpty(); s != nil; s = l.parkedEmpty() {
		l.pool.leave(s)
	}
}

// parkedEmpty finds a parked resident with nothing left to copy.
func (l *loop) parkedEmpty() *sequence {
	for _, s := range l.pool.residents {
		if s.parked && len(s.copies) == 0 {
			return s
		}
	}
	return nil
}
