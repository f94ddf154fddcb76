package stationtest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// kvSameAnswer is the promise: a prompt seen before costs one token, and its
// answer is the one it had.
func (s *suite) kvSameAnswer(t *testing.T) {
	const length = 16 // of the answers
	for _, n := range []int{1, 2, 63, 64, 65, 130} {
		t.Run(fmt.Sprintf("%d tokens", n), func(t *testing.T) {
			scope, prompt := s.scope(t), s.words(t, "same", n)
			want := s.kvFresh(t, prompt, length)

			first := s.kvLoad(t, scope, prompt, 0)
			require.Zero(t, first.Position)
			require.Equal(t, -1, first.DiffersAt)
			if n > 1 {
				s.requireReason(t, first.Reason, wire.KVNothing)
			}
			s.forward(t, first.Session, 0)
			saved := s.kvSave(t, first.Session, n, &wire.KVSaveRequest{Scope: scope})
			require.Equal(t, n, saved.Written)
			s.sameAnswer(t, want, s.kvAnswer(t, &wire.KVLoadResponse{Session: first.Session, Position: n}, length, true))

			for range 2 { // a load copies: what is stored stays
				again := s.kvLoad(t, scope, prompt, 0)
				require.Equal(t, n-1, again.Position)
				s.sameAnswer(t, want, s.kvAnswer(t, again, length, true))
			}
			s.kvSettle(t)
			again := s.kvLoad(t, scope, prompt, 0)
			require.Equal(t, n-1, again.Position)
			s.sameAnswer(t, want, s.kvAnswer(t, again, length, true))
		})
	}
}

// kvPartial: reuse is exact to the token.
func (s *suite) kvPartial(t *testing.T) {
	const stored = 130
	scope, base := s.scope(t), s.words(t, "partial", stored)
	s.kvStored(t, scope, base, &wire.KVSaveRequest{Release: true})
	for _, settled := range []bool{false, true} {
		if settled {
			s.kvSettle(t)
		}
		for _, shared := range []int{0, 1, 63, 64, 65, 100, 128, 129} {
			t.Run(fmt.Sprintf("%d tokens shared, settled %v", shared, settled), func(t *testing.T) {
				prompt := s.forked(t, base, shared, 9)
				want := s.kvFresh(t, prompt, 8)
				l := s.kvLoad(t, scope, prompt, 0)
				require.Equal(t, shared, l.Position)
				if shared == 0 {
					s.requireReason(t, l.Reason, wire.KVNothing, wire.KVDiffers)
				} else {
					s.requireReason(t, l.Reason, wire.KVDiffers)
					require.Equal(t, shared, l.DiffersAt)
					require.Equal(t, prompt[shared], *l.PromptToken)
					require.Equal(t, base[shared], *l.StoredToken)
				}
				s.sameAnswer(t, want, s.kvAnswer(t, l, 8, true))
			})
		}
	}
	t.Run("the prompt goes on", func(t *testing.T) {
		prompt := s.forked(t, base, stored, 9)
		want := s.kvFresh(t, prompt, 8)
		l := s.kvLoad(t, scope, prompt, 0)
		require.Equal(t, stored, l.Position)
		s.requireReason(t, l.Reason, wire.KVEnds)
		require.Equal(t, -1, l.DiffersAt)
		s.sameAnswer(t, want, s.kvAnswer(t, l, 8, true))
	})
	t.Run("the prompt ends before", func(t *testing.T) {
		for _, n := range []int{1, 2, 64, 65, 100} {
			want := s.kvFresh(t, base[:n], 8)
			l := s.kvLoad(t, scope, base[:n], 0)
			require.Equal(t, n-1, l.Position)
			s.sameAnswer(t, want, s.kvAnswer(t, l, 8, true))
		}
	})
	t.Run("a saved part", func(t *testing.T) {
		scope := s.scope(t)
		l := s.kvLoad(t, scope, base, 0)
		s.forward(t, l.Session, 0)
		for _, n := range []int{30, 90, 90, 70} { // what is stored is not written again
			s.kvSave(t, l.Session, n, &wire.KVSaveRequest{Scope: scope})
		}
		require.Zero(t, s.kvSave(t, l.Session, 64, &wire.KVSaveRequest{Scope: scope}).Written)
		s.kvEnd(t, l.Session)
		l = s.kvLoad(t, scope, base, 0)
		require.Equal(t, 90, l.Position)
		s.requireReason(t, l.Reason, wire.KVEnds)
		s.kvEnd(t, l.Session)
	})
}

// kvPrefixLength: the header bounds what a load restores.
func (s *suite) kvPrefixLength(t *testing.T) {
	scope, prompt := s.scope(t), s.words(t, "length", 130)
	want := s.kvFresh(t, prompt, 8)
	s.kvStored(t, scope, prompt, &wire.KVSaveRequest{Release: true})
	for _, n := range []int{1, 50, 64, 65, 128, 129} {
		l := s.kvLoad(t, scope, prompt, n)
		require.Equal(t, n, l.Position)
		if n < len(prompt)-1 {
			require.Equal(t, wire.KVLimit, l.Reason)
		}
		s.sameAnswer(t, want, s.kvAnswer(t, l, 8, true))
	}
}

// kvConversation saves each answer, as a host does: the next turn's prompt is
// this turn's, its answer, and more.
func (s *suite) kvConversation(t *testing.T) {
	scope, prompt := s.scope(t), s.words(t, "turns", 60)
	stored := 0
	for turn := range 4 {
		want := s.kvFresh(t, prompt, 20)
		l := s.kvLoad(t, scope, prompt, 0)
		require.Equal(t, stored, l.Position, "turn %d", turn)
		require.Zero(t, l.Tiers.Cold, "it is in RAM")
		if turn > 0 {
			s.requireReason(t, l.Reason, wire.KVEnds)
		}
		a := s.kvAnswer(t, l, 20, false)
		s.sameAnswer(t, want, a)
		stored = len(prompt) + 20
		require.Equal(t, stored, a.done.Position, "the last sampled token is evaluated")
		_, err := s.c.KVSave(s.ctx(t), l.Session, stored+1, &wire.KVSaveRequest{Scope: scope})
		requireCode(t, err, wire.CodeInvalid)
		saved := s.kvSave(t, l.Session, stored, &wire.KVSaveRequest{Scope: scope, Release: true})
		require.GreaterOrEqual(t, saved.Written, len(prompt)+20-l.Position)
		s.requireGone(t, l.Session)

		prompt = append(slices.Clone(prompt), a.tokens...)
		prompt = append(prompt, s.words(t, fmt.Sprintf("%d", turn), 12)...)
	}
}

// kvCycles restores one conversation again and again.
func (s *suite) kvCycles(t *testing.T) {
	scope, prompt := s.scope(t), s.words(t, "cycles", 100)
	want := s.kvFresh(t, prompt, 8)
	s.kvStored(t, scope, prompt, &wire.KVSaveRequest{Release: true})
	for range 30 {
		l := s.kvLoad(t, scope, prompt, 0)
		require.Equal(t, len(prompt)-1, l.Position)
		s.forward(t, l.Session, 0)
		saved := s.kvSave(t, l.Session, len(prompt), &wire.KVSaveRequest{Scope: scope})
		require.Zero(t, saved.Written, "it is stored")
		require.Zero(t, saved.Bytes)
		s.sameAnswer(t, want, s.kvAnswer(t, &wire.KVLoadResponse{Session: l.Session, Position: len(prompt)}, 8, true))
	}
}
