// Grammars in llama.cpp's GBNF, read into rules over bytes.
//
// A grammar speaks of characters, a token holds bytes, often half a character.
// So each class of characters becomes a small automaton over the bytes of its
// UTF-8, and what follows sees bytes alone: no token needs to be decoded, and
// bytes that are not UTF-8 match nothing.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace gbnf {

// invalid is the fault of a request's grammar; its text goes to the client.
struct invalid : std::runtime_error {
    using std::runtime_error::runtime_error;
};

constexpr int max_depth = 128;         // of parentheses: they are read by recursion
constexpr int max_repeat = 1 << 16;    // of one repetition
constexpr size_t max_name = 256;       // bytes of a rule's name
constexpr size_t max_items = 1 << 19;  // of all rules, repetitions written out, and of the classes' ranges and edges

struct range {
    uint32_t low, high; // code points, both included
    bool operator<(const range &o) const { return low != o.low ? low < o.low : high < o.high; }
};

// edge leads from a node of a class over one of some bytes.
struct edge {
    uint8_t low, high;
    int32_t next; // a node, or done
};

// chars are classes of characters as automata over bytes. Equal ones are one node.
class chars {
  public:
    static constexpr int32_t done = -1; // the character is complete

    // add gives the node that a character of the class is read from; ranges in
    // any order. invalid when no character is in it.
    int32_t add(std::vector<range> set, bool inverted);

    const edge *begin(int32_t node) const { return edges.data() + at[node].first; }
    const edge *end(int32_t node) const { return begin(node) + at[node].second; }
    // each edge there is
    const std::vector<edge> &all() const { return edges; }
    // finish forgets what only add needs.
    void finish();
    // size in bytes, finished
    size_t size() const { return edges.size() * sizeof(edge) + at.size() * sizeof(at[0]); }

  private:
    std::vector<edge> edges;
    std::vector<std::pair<int32_t, int32_t>> at; // first edge and number, by node
    std::map<std::vector<range>, int32_t> known;
    std::map<std::vector<std::pair<int32_t, int32_t>>, int32_t> nodes; // by their edges

    int32_t anys[4] = {done, done, done, done}; // by bytes that follow; done: not made yet

    int32_t node(const std::vector<edge> &e);
    void split(std::vector<edge> &out, const std::vector<range> &set, int more, uint8_t prefix);
    int32_t tail(int more, const std::vector<range> &set);
    int32_t any(int more);
};

// rules of a grammar. An item is a node of chars (0 and up), the end of a
// sequence, or a reference to a rule.
class rules {
  public:
    static constexpr int32_t end = INT32_MIN;
    static int32_t reference(int32_t rule) { return ~rule; }
    static int32_t referred(int32_t item) { return ~item; }
    static bool is_chars(int32_t item) { return item >= 0; }
    static bool is_rule(int32_t item) { return item < 0 && item != end; }

    chars classes;
    std::vector<int32_t> items;     // sequences, each closed by end
    std::vector<int32_t> sequences; // where in items each begins
    struct rule {
        int32_t first = 0, n = 0; // its alternatives in sequences
        bool defined = false;
    };
    std::vector<rule> all;
    int32_t root = -1;

    // size in bytes
    size_t size() const {
        return classes.size() + (items.size() + sequences.size()) * sizeof(int32_t) + all.size() * sizeof(rule);
    }
};

// parse reads a grammar; invalid says what is wrong and in which line.
rules parse(const std::string &text);

// left_recursive gives a rule that no reading from left to right comes to the
// end of, or -1: one that calls itself before anything was read, with more to
// come after.
int32_t left_recursive(const rules &g);

} // namespace gbnf
