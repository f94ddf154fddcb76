// Where an answer stands in a grammar, and which tokens may come next.
//
// A grammar is read by a pushdown automaton. What is left to read is a stack of
// places in rules; ambiguity makes several. Stacks are linked and each is held
// once, sets of them are states, and where a byte leads from a state is found
// once: after a few answers a token costs a table look-up per byte, and the set
// of tokens allowed in a state is kept. All of that is the grammar's, shared by
// the sequences that use it; a sequence has only its state.
//
// Hostile grammars. The sets are bounded, what is kept is bounded and thrown
// away when full, and work is paid for: a sequence has a budget that grows with
// each token. Whoever exceeds a bound gets gbnf::invalid; nobody else notices.
#pragma once

#include "gbnf.hpp"
#include "lexicon.hpp"

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace match {

constexpr size_t max_stacks = 1 << 14;      // of a state: what an ambiguous grammar may keep open
constexpr size_t max_known = 16 << 20;      // bytes a grammar keeps of what was found
constexpr size_t max_grown = 64 << 20;      // bytes it may grow to for one token, or at its start
constexpr int64_t budget_first = 2'000'000; // steps: some ten milliseconds
constexpr int64_t budget_token = 50'000;    // steps a token adds, up to budget_first

// known is what was found of a grammar so far.
class known {
  public:
    static constexpr int32_t dead = -1;

    explicit known(const gbnf::rules &r);
    known(const known &) = delete;

    // start gives the state before the first byte.
    int32_t start(int64_t &budget);
    // step gives the state after a byte, or dead.
    int32_t step(int32_t state, uint8_t byte, int64_t &budget) {
        int32_t to = next[(size_t) state * n_kinds + kind[byte]];
        return to != unknown ? to : find(state, byte, budget);
    }
    // complete says whether what was read is a whole text of the grammar.
    bool complete(int32_t state) const { return states[(size_t) state].complete; }
    // over says whether nothing can follow.
    bool over(int32_t state) const { return states[(size_t) state].n == 0; }
    // tokens gives the set of tokens that may follow, by what they write.
    const std::vector<uint64_t> &tokens(int32_t state, const lexicon &words, int64_t &budget);

    // adopt makes a state of another known of the same grammar one of this.
    int32_t adopt(const known &other, int32_t state, int64_t &budget);
    // size in bytes
    size_t size() const { return bytes; }

  private:
    static constexpr int32_t unknown = -2;
    static constexpr int32_t bottom = -1;

    // stack is a place in the rules' items, and the stack below. Only places
    // where something is left to read are pushed.
    struct stack {
        int32_t at, below;
    };
    // open is a character being read, and the stack after it.
    struct open {
        int32_t node, then;
        bool operator==(const open &o) const { return node == o.node && then == o.then; }
        bool operator<(const open &o) const { return node != o.node ? node < o.node : then < o.then; }
    };
    struct state {
        size_t first;
        int32_t n;
        bool complete;
    };

    const gbnf::rules &rules;
    size_t n_kinds = 0; // of bytes that the grammar tells apart
    uint8_t kind[256];

    std::vector<stack> stacks;
    std::unordered_map<uint64_t, int32_t> stack_ids;
    std::vector<uint32_t> seen; // by stack: the round that expanded it
    uint32_t round = 0;

    std::vector<state> states;
    std::vector<open> opens; // of all states
    std::unordered_multimap<uint64_t, int32_t> state_ids;
    std::vector<int32_t> next; // by state and kind
    std::unordered_map<int32_t, std::vector<uint64_t>> allowed;
    int32_t first = unknown; // the state before the first byte
    size_t bytes = 0;

    // of the state being made
    std::vector<open> fresh;
    bool fresh_complete = false;
    std::vector<int32_t> todo;

    int32_t push(int32_t at, int32_t below);
    void grow(size_t by);
    void begin();
    void expand(int32_t stack, int64_t &budget);
    int32_t intern();
    int32_t find(int32_t state, uint8_t byte, int64_t &budget);
};

// grammar is a parsed grammar and what is known of it. known belongs to the
// thread that samples.
struct grammar {
    explicit grammar(const std::string &text);

    const gbnf::rules rules;
    std::shared_ptr<match::known> known;

    // size in bytes, as of the last weigh; from any thread
    size_t size() const { return weight; }
    void weigh() { weight = fixed + known->size(); }

  private:
    const size_t fixed; // of the text and the rules
    std::atomic<size_t> weight{0};
};

// grammars keeps those used last. Safe from any thread.
class grammars {
  public:
    static constexpr size_t max_kept = 32;
    static constexpr size_t max_size = 128 << 20; // bytes of all kept

    // get parses a grammar unless it is kept; gbnf::invalid when it is none.
    std::shared_ptr<grammar> get(const std::string &text);
    // size in bytes of all kept
    size_t size();

  private:
    std::mutex mutex;
    std::list<std::pair<std::string, std::shared_ptr<grammar>>> kept; // the last used first
};

// reader is a sequence's place in its grammar.
class reader {
    std::shared_ptr<match::grammar> grammar;
    std::shared_ptr<match::known> known; // the grammar's, or the one before
    const lexicon &words;
    const bool control; // control tokens are written
    int32_t state = 0;
    bool begun = false;
    int64_t budget = budget_first;

  public:
    reader(std::shared_ptr<match::grammar> g, const lexicon &w, bool control_text)
        : grammar(std::move(g)), words(w), control(control_text) {}

    // next makes ready for a token; the other calls follow it, and done comes
    // last, whether they failed or not: it gives back what is more than the
    // grammar may keep.
    void next();
    void done();
    bool complete() const { return known->complete(state); }
    bool over() const { return known->over(state); }
    // allows says whether what a token writes may follow; not for those that end the answer.
    bool allows(int32_t token);
    // tokens calls leave(word, bits) for each 64 tokens: those that may follow.
    template <typename F> void tokens(F leave) {
        const auto &may = known->tokens(state, words, budget);
        for (size_t w = 0; w < may.size(); w++) {
            leave(w, may[w] & (words.plain[w] | (control ? words.control[w] : 0)));
        }
    }
    void accept(int32_t token);

  private:
    int32_t after(int32_t token);
};

} // namespace match
