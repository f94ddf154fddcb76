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

// cut gives the part of a set in [low, high], from low on.
std::vector<range> cut(const std::vector<range> &set, uint32_t low, uint32_t high) {
    std::vector<range> out;
    for (const range &r : set) {
        if (r.high >= low && r.low <= high) {
            out.push_back({std::max(r.low, low) - low, std::min(r.high, high) - low});
        }
    }
    return out;
}

// lead appends an edge, or widens the last one.
void lead(std::vector<edge> &edges, uint8_t byte, int32_t next) {
    if (!edges.empty() && edges.back().next == next && edges.back().high + 1 == byte) {
        edges.back().high = byte;
    } else {
        edges.push_back({byte, byte, next});
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
        const uint32_t width = 1u << (6 * l.more);
        std::vector<range> here = cut(set, l.low, l.high);
        if (here.empty()) {
            continue;
        }
        for (range &r : here) {
            r.low += l.low;
            r.high += l.low;
        }
        for (uint32_t digit = here.front().low / width; digit <= here.back().high / width; digit++) {
            std::vector<range> part = cut(here, digit * width, (digit + 1) * width - 1);
            if (!part.empty()) {
                lead(first, (uint8_t) (l.first | digit), tail(l.more, part));
            }
        }
    }
    if (first.empty()) {
        throw invalid("a class of characters is empty");
    }
    return known[set] = node(first);
}

// tail gives the node that reads the last bytes of a character whose first ones
// are known; set counts from the least that can follow.
int32_t chars::tail(int more, const std::vector<range> &set) {
    if (more == 0) {
        return done;
    }
    const uint32_t width = 1u << (6 * (more - 1));
    std::vector<edge> edges;
    if (set.size() == 1 && set[0].low == 0 && set[0].high == 64 * width - 1) {
        return node({{0x80, 0xBF, tail(more - 1, {{0, width - 1}})}}); // any: most of a large class
    }
    for (uint32_t digit = set.front().low / width; digit <= set.back().high / width; digit++) {
        std::vector<range> part = cut(set, digit * width, (digit + 1) * width - 1);
        if (!part.empty()) {
            lead(edges, (uint8_t) (0x80 | digit), tail(more - 1, part));
        }
    }
    return node(edges);
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
