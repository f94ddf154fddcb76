// Classes of characters as automata over the bytes of UTF-8: the ranges of each
// length are cut at the first byte, what is left at the second, and so on.
#include "gbnf.hpp"

#include <algorithm>

namespace gbnf {

namespace {

constexpr uint32_t last_char = 0x10FFFF;

// The characters of each length in UTF-8, without surrogates.
struct length {
    uint32_t low, high;
    int more;      // bytes after the first
    uint8_t first; // of the first byte, without the character's bits
};
constexpr length lengths[] = {
    {0, 0x7F, 0, 0}, {0x80, 0x7FF, 1, 0xC0}, {0x800, 0xD7FF, 2, 0xE0}, {0xE000, 0xFFFF, 2, 0xE0}, {0x10000, last_char, 3, 0xF0},
};

// tidy sorts ranges and joins those that touch.
std::vector<range> tidy(std::vector<range> set) {
    std::sort(set.begin(), set.end());
    std::vector<range> out;
    for (const range &r : set) {
        if (!out.empty() && r.low <= out.back().high + 1) {
            out.back().high = std::max(out.back().high, r.high);
        } else {
            out.push_back(r);
        }
    }
    return out;
}

std::vector<range> complement(const std::vector<range> &set) {
    std::vector<range> out;
    uint32_t next = 0;
    for (const range &r : set) {
        if (r.low > next) {
            out.push_back({next, r.low - 1});
        }
        next = r.high + 1;
    }
    if (next <= last_char) {
        out.push_back({next, last_char});
    }
    return out;
}

// cut gives the part of a set in [low, high].
std::vector<range> cut(const std::vector<range> &set, uint32_t low, uint32_t high) {
    std::vector<range> out;
    for (const range &r : set) {
        if (r.high >= low && r.low <= high) {
            out.push_back({std::max(r.low, low), std::min(r.high, high)});
        }
    }
    return out;
}

// lead appends an edge, or widens the last one.
void lead(std::vector<edge> &edges, uint8_t low, uint8_t high, int32_t next) {
    if (!edges.empty() && edges.back().next == next && edges.back().high + 1 == low) {
        edges.back().high = high;
    } else {
        edges.push_back({low, high, next});
    }
}

} // namespace

int32_t chars::add(std::vector<range> set, bool inverted) {
    set = tidy(std::move(set));
    if (inverted) {
        set = complement(set);
    }
    auto found = known.find(set);
    if (found != known.end()) {
        return found->second;
    }
    std::vector<edge> first;
    for (const length &l : lengths) {
        split(first, cut(set, l.low, l.high), l.more, l.first);
    }
    if (first.empty()) {
        throw invalid("a class of characters is empty");
    }
    return known[set] = node(first);
}

// split appends the edges that lead from the first byte of characters, of which
// more bytes follow, to what reads those. A byte that all of them may follow is
// not looked into: of a large class that is most.
void chars::split(std::vector<edge> &out, const std::vector<range> &set, int more, uint8_t prefix) {
    const uint32_t width = 1u << (6 * more);
    std::vector<range> part;
    uint32_t next = 0; // what is below is done
    for (size_t i = 0; i < set.size();) {
        const uint32_t low = std::max(set[i].low, next), digit = low / width, base = digit * width;
        if (low == base && set[i].high - low >= width - 1) {
            const uint32_t last = (set[i].high + 1) / width - 1;
            lead(out, (uint8_t) (prefix | digit), (uint8_t) (prefix | last), any(more));
            next = (last + 1) * width;
        } else {
            next = base + width;
            part.clear();
            for (size_t j = i; j < set.size() && set[j].low < next; j++) {
                part.push_back({std::max(set[j].low, low) - base, std::min(set[j].high, next - 1) - base});
            }
            lead(out, (uint8_t) (prefix | digit), (uint8_t) (prefix | digit), tail(more, part));
        }
        while (i < set.size() && set[i].high < next) {
            i++;
        }
    }
}

// tail gives the node that reads the last bytes of a character whose first ones
// are known; set counts from the least that can follow.
int32_t chars::tail(int more, const std::vector<range> &set) {
    std::vector<edge> edges;
    split(edges, set, more - 1, 0x80);
    return node(edges);
}

// any gives the node that reads whatever may be the last bytes of a character.
int32_t chars::any(int more) {
    if (more == 0) {
        return done;
    }
    if (anys[more] == done) {
        anys[more] = node({{0x80, 0xBF, any(more - 1)}});
    }
    return anys[more];
}

void chars::finish() {
    known.clear();
    nodes.clear();
}

int32_t chars::node(const std::vector<edge> &e) {
    std::vector<std::pair<int32_t, int32_t>> key;
    for (const edge &x : e) {
        key.emplace_back(x.low << 8 | x.high, x.next);
    }
    auto [it, fresh] = nodes.emplace(std::move(key), (int32_t) at.size());
    if (fresh) {
        at.emplace_back((int32_t) edges.size(), (int32_t) e.size());
        edges.insert(edges.end(), e.begin(), e.end());
    }
    return it->second;
}

} // namespace gbnf
