// Package stationtest holds what tests of the station stand on: a
// deterministic engine without a model, and the conformance test that it and
// the real engine pass over HTTP.
//
// [Engine] implements engine.Engine and engine.Mover. It keeps the KV pool as an array of cells
// (token, position, the sequences that own it) with a head that only goes up,
// and its "model" is a pure function of the tokens it reads back from the cells
// of a row's sequence, in cell order. So a token that is lost, doubled, out of
// order or another sequence's changes the answer, as it would in a real model.
// The rows that Export gives hold the same in a form that Import can check: rows
// of another position, another part or none at all are refused and a violation,
// rows computed behind another text change the answer.
// Besides, every rule of engine.Engine is checked as calls come in; a breach is
// a violation, which [Engine.Check] turns into a test failure together with
// samplers, held rows and states that nobody freed.
//
// The model writes made-up text by itself. A prompt that holds "say:TEXT"
// followed by an end mark (see [Say]) is answered with exactly TEXT and the end
// of the turn: tests of stop strings, characters and streams choose their
// answers that way. [Options.Next] forces answers by any other rule.
//
// Knobs make trouble on order: [Engine.Pause] stops decode calls until they are
// let go, [Engine.FailDecode], [Engine.FailExport] and [Engine.FailImport] fail a
// coming call, [Options.LoadGate] and [Options.LoadError] delay and fail the load.
//
// [Conformance] speaks to any running station through station/client.
package stationtest
