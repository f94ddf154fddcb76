package bench

import (
	"context"
	"errors"
	"fmt"

	"thoth/station/wire"
)

// The cohorts that compare a server with itself under another setting.
const (
	cMissLong  = "miss_718_tokens"
	cMissShort = "miss_short"
	cTiers     = "decode_by_tiers"
)

// Pairs of requests in one round: a difference of 3 % shows only in the median
// of many.
const (
	longPairs  = 4
	shortPairs = 8
	tierPairs  = 4
)

// Answers there are longer, since their pace is compared.
const controlTokens = 64

// templateTokens may be found again by any prompt: what the chat template begins
// with.
const templateTokens = 64

// DefaultTierSettings are budgets that some thousand tokens fill.
var DefaultTierSettings = []string{"THOTH_KV_WARM_BYTES=67108864", "THOTH_KV_COLD_BYTES=100663296"}

// fillPrompts of 718 tokens must be enough to fill the tiers.
const fillPrompts = 120

// twins are two servers that are asked the same in turn: 0 is under test, 1 is
// the measure.
type twins [2]*instance

func (r *liquidRun) stopTwins(t twins) {
	for _, in := range t {
		if in != nil {
			if err := r.launch.stop(in); err != nil {
				r.fail("at the end: %v", err)
			}
		}
	}
}

// pair asks both, the one that goes first alternating, so that no order pays;
// check judges each answer.
func (r *liquidRun) pair(ctx context.Context, t twins, cohort string, round, sample int, q question, check func(side int, a *answer) error) error {
	var text [2]string
	for i := range t {
		side := (i + sample) % 2
		r.quiet(ctx)
		a, err := r.ask(ctx, t[side], q)
		if err == nil {
			err = check(side, a)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("round %d, %s, %s: %w", round+1, cohort, t[side].name, err), t[side].process.alive())
		}
		r.note(cohort, side, sample, a)
		text[side] = a.text
	}
	r.same(t[0], round, cohort, text[1], text[0])
	return nil
}

// off compares misses with liquid memory on to the same prompts with it off.
func (r *liquidRun) off(ctx context.Context) (err error) {
	var t twins
	defer func() { r.stopTwins(t) }()
	if t[0], err = r.launch.thoth(ctx, "liquid-on", true, "THOTH_KV_STORE="+r.launch.storeURL("on")); err != nil {
		return err
	}
	if t[1], err = r.launch.thoth(ctx, "liquid-off", false); err != nil {
		return err
	}
	if err := r.calibrate(ctx, t[0]); err != nil {
		return err
	}
	check := func(side int, a *answer) error {
		switch {
		case side == 0 && a.cachedTokens > templateTokens:
			return fmt.Errorf("%d tokens of a new prompt came from liquid memory: it is no miss", a.cachedTokens)
		case side == 1 && a.liquid != "" && a.liquid != "disabled":
			return fmt.Errorf("liquid memory says %q where it is off", a.liquid)
		}
		return nil
	}
	for round := range r.o.Rounds {
		for _, c := range []struct {
			cohort string
			pairs  int
			long   bool
		}{{cMissLong, longPairs, true}, {cMissShort, shortPairs, false}} {
			for i := range c.pairs {
				q := question{messages: missMessages(r.seed, round, i, c.long, r.size), maxTokens: controlTokens}
				if err := r.pair(ctx, t, c.cohort, round, round*c.pairs+i, q, check); err != nil {
					return err
				}
			}
			r.logf("round %d of %d: %s, on and off", round+1, r.o.Rounds, c.cohort)
		}
	}
	return nil
}

// tiers compares decode on a server whose tiers are all full to decode on one
// with the same settings that has stored nothing.
func (r *liquidRun) tiers(ctx context.Context) (err error) {
	var t twins
	defer func() { r.stopTwins(t) }()
	for side, name := range []string{"tiers-full", "tiers-empty"} {
		settings := append([]string{"THOTH_KV_STORE=" + r.launch.storeURL(name)}, r.o.TierSettings...)
		if t[side], err = r.launch.thoth(ctx, name, true, settings...); err != nil {
			return err
		}
	}
	if err := r.calibrate(ctx, t[1]); err != nil {
		return err
	}
	if err := r.fillTiers(ctx, t[0]); err != nil {
		return err
	}
	for round := range r.o.Rounds {
		for i := range tierPairs {
			q := question{prompt: streamPrompt, maxTokens: 2 * controlTokens}
			if err := r.pair(ctx, t, cTiers, round, round*tierPairs+i, q, func(int, *answer) error { return nil }); err != nil {
				return err
			}
		}
		r.logf("round %d of %d: %s, full and empty", round+1, r.o.Rounds, cTiers)
	}
	return nil
}

// fillTiers sends prompts until warm and cold are full, where they are on. The
// hot tier is the cells of sequences that live: at rest it holds nothing.
func (r *liquidRun) fillTiers(ctx context.Context, in *instance) error {
	for i := range fillPrompts {
		if _, err := r.ask(ctx, in, question{messages: missMessages(r.seed, -1, i, true, r.size), maxTokens: 1}); err != nil {
			return fmt.Errorf("filling the tiers: %w", err)
		}
		r.quiet(ctx)
		ix, err := in.station.KVIndex(ctx)
		if err != nil {
			return fmt.Errorf("the station's index: %w", err)
		}
		r.filled = ix
		if full(&ix.Warm) && full(&ix.Cold) {
			r.logf("tiers are full after %d prompts", i+1)
			return nil
		}
	}
	return fmt.Errorf("after %d prompts the tiers are not full: %s; smaller budgets are needed (--tier-settings)", fillPrompts, tierText(r.filled))
}

// full is a tier that had to push something out, or has next to no room. One
// that is off is not waited for.
func full(t *wire.KVTier) bool {
	return t.State == "off" || t.Evictions > 0 || t.BudgetBytes > 0 && t.Bytes >= t.BudgetBytes/10*9
}

func tierText(ix *wire.KVIndex) string {
	of := func(name string, t *wire.KVTier) string {
		if t.State == "off" {
			return name + " off"
		}
		return fmt.Sprintf("%s %.0f of %.0f MiB, %d evictions", name, float64(t.Bytes)/(1<<20), float64(t.BudgetBytes)/(1<<20), t.Evictions)
	}
	return of("hot", &ix.Hot) + "; " + of("warm", &ix.Warm) + "; " + of("cold", &ix.Cold)
}
