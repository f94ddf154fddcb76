// Left recursion: rules that reading from left to right never gets out of.
#include "gbnf.hpp"

#include <algorithm>

namespace gbnf {

namespace {

// empties says which rules may write nothing: a rule does when all items of one
// of its alternatives do, found by counting down, once for each reference.
std::vector<bool> empties(const rules &g) {
    struct place {
        int32_t rule;
        int32_t left; // items not known to be empty
    };
    std::vector<place> places; // by sequence
    std::vector<std::vector<int32_t>> uses(g.all.size());
    std::vector<bool> empty(g.all.size());
    std::vector<int32_t> found;
    places.resize(g.sequences.size());
    for (size_t r = 0; r < g.all.size(); r++) {
        for (int32_t s = g.all[r].first; s < g.all[r].first + g.all[r].n; s++) {
            int32_t n = 0;
            for (const int32_t *i = &g.items[(size_t) g.sequences[(size_t) s]]; *i != rules::end; i++, n++) {
                if (rules::is_rule(*i)) {
                    uses[(size_t) rules::referred(*i)].push_back(s);
                }
            }
            places[(size_t) s] = {(int32_t) r, n};
            if (n == 0 && !empty[r]) {
                empty[r] = true;
                found.push_back((int32_t) r);
            }
        }
    }
    while (!found.empty()) {
        int32_t r = found.back();
        found.pop_back();
        for (int32_t s : uses[(size_t) r]) {
            place &p = places[(size_t) s];
            if (--p.left == 0 && !empty[(size_t) p.rule]) {
                empty[(size_t) p.rule] = true;
                found.push_back(p.rule);
            }
        }
    }
    return empty;
}

// start is a rule that may be the first thing another one reads.
struct start {
    int32_t rule;
    bool grows; // and something comes after it, which has to be remembered
};

// components numbers rules so that those which start with each other have one
// number (Tarjan 1972, without recursion: a chain of rules may be long).
std::vector<int32_t> components(const std::vector<std::vector<start>> &starts) {
    const size_t n = starts.size();
    struct frame {
        int32_t rule;
        size_t next;
    };
    std::vector<int32_t> seen(n, -1), low(n), component(n, -1), open;
    std::vector<frame> stack;
    int32_t count = 0, parts = 0;
    auto enter = [&](int32_t r) {
        seen[(size_t) r] = low[(size_t) r] = count++;
        open.push_back(r);
        stack.push_back({r, 0});
    };
    for (size_t from = 0; from < n; from++) {
        if (seen[from] >= 0) {
            continue;
        }
        enter((int32_t) from);
        while (!stack.empty()) {
            frame &f = stack.back();
            const size_t r = (size_t) f.rule;
            if (f.next < starts[r].size()) {
                int32_t to = starts[r][f.next++].rule;
                if (seen[(size_t) to] < 0) {
                    enter(to);
                } else if (component[(size_t) to] < 0) {
                    low[r] = std::min(low[r], seen[(size_t) to]);
                }
                continue;
            }
            if (low[r] == seen[r]) {
                int32_t member;
                do {
                    member = open.back();
                    open.pop_back();
                    component[(size_t) member] = parts;
                } while (member != (int32_t) r);
                parts++;
            }
            stack.pop_back();
            if (!stack.empty()) {
                int32_t &above = low[(size_t) stack.back().rule];
                above = std::min(above, low[r]);
            }
        }
    }
    return component;
}

} // namespace

int32_t left_recursive(const rules &g) {
    std::vector<bool> empty = empties(g);
    std::vector<std::vector<start>> starts(g.all.size());
    for (size_t r = 0; r < g.all.size(); r++) {
        for (int32_t s = g.all[r].first; s < g.all[r].first + g.all[r].n; s++) {
            for (const int32_t *i = &g.items[(size_t) g.sequences[(size_t) s]]; rules::is_rule(*i); i++) {
                int32_t to = rules::referred(*i);
                starts[r].push_back({to, i[1] != rules::end});
                if (!empty[(size_t) to]) {
                    break;
                }
            }
        }
    }
    std::vector<int32_t> component = components(starts);
    for (size_t r = 0; r < starts.size(); r++) {
        for (const start &s : starts[r]) {
            if (s.grows && component[r] == component[(size_t) s.rule]) {
                return (int32_t) r;
            }
        }
    }
    return -1;
}

} // namespace gbnf
