#include "match.hpp"

#include <algorithm>

namespace match {

using gbnf::invalid;

namespace {

constexpr int32_t nodes_a_step = 64; // of the vocabulary's tree: each is but a look-up

void pay(int64_t &budget, int64_t steps) {
    budget -= steps;
    if (budget < 0) {
        throw invalid("following the grammar costs too much: it is too ambiguous");
    }
}

uint64_t mix(uint64_t h, uint64_t v) {
    h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
    return h * 0xff51afd7ed558ccdull;
}

} // namespace

// --- what is known of a grammar ---

known::known(const gbnf::rules &r) : rules(r) {
    bool cut[257] = {true};
    for (const gbnf::edge &e : rules.classes.all()) {
        cut[e.low] = cut[e.high + 1] = true;
    }
    for (int b = 0; b < 256; b++) {
        n_kinds += cut[b];
        kind[b] = (uint8_t) (n_kinds - 1);
    }
}

int32_t known::push(int32_t at, int32_t below) {
    if (rules.items[(size_t) at] == gbnf::rules::end) {
        return below;
    }
    uint64_t key = (uint64_t) (uint32_t) at << 32 | (uint32_t) below;
    auto [it, made] = stack_ids.emplace(key, (int32_t) stacks.size());
    const int32_t id = it->second;
    if (made) {
        stacks.push_back({at, below});
        seen.push_back(0);
        grow(sizeof(stack) + sizeof(uint32_t) + 48); // a node of the map
    }
    return id;
}

void known::grow(size_t by) {
    bytes += by;
    if (bytes > max_grown) {
        throw invalid("following the grammar takes too much memory: it is too ambiguous");
    }
}

void known::begin() {
    fresh.clear();
    fresh_complete = false;
    round++;
}

// expand adds to the fresh state what a stack can read next. Stacks seen in this
// round were expanded: rules that may be empty come back to where they began.
void known::expand(int32_t from, int64_t &budget) {
    todo.assign(1, from);
    while (!todo.empty()) {
        int32_t s = todo.back();
        todo.pop_back();
        pay(budget, 1);
        if (s == bottom) {
            fresh_complete = true;
            continue;
        }
        if (seen[(size_t) s] == round) {
            continue;
        }
        seen[(size_t) s] = round;
        const stack top = stacks[(size_t) s];
        const int32_t item = rules.items[(size_t) top.at];
        const int32_t after = push(top.at + 1, top.below);
        if (gbnf::rules::is_chars(item)) {
            fresh.push_back({item, after});
            if (fresh.size() > max_stacks) {
                throw invalid("the grammar is too ambiguous: more than " + std::to_string(max_stacks) + " ways to read on are open at once");
            }
            continue;
        }
        const auto &rule = rules.all[(size_t) gbnf::rules::referred(item)];
        pay(budget, rule.n);
        for (int32_t a = 0; a < rule.n; a++) {
            todo.push_back(push(rules.sequences[(size_t) (rule.first + a)], after));
        }
    }
}

// intern gives the fresh state's number.
int32_t known::intern() {
    std::sort(fresh.begin(), fresh.end());
    fresh.erase(std::unique(fresh.begin(), fresh.end()), fresh.end());
    if (fresh.empty() && !fresh_complete) {
        return dead;
    }
    uint64_t hash = fresh_complete;
    for (const open &o : fresh) {
        hash = mix(hash, (uint64_t) (uint32_t) o.node << 32 | (uint32_t) o.then);
    }
    auto [from, to] = state_ids.equal_range(hash);
    for (; from != to; ++from) {
        const state &s = states[(size_t) from->second];
        if (s.complete == fresh_complete && (size_t) s.n == fresh.size() &&
            std::equal(fresh.begin(), fresh.end(), opens.begin() + (long) s.first)) {
            return from->second;
        }
    }
    grow(sizeof(state) + fresh.size() * sizeof(open) + n_kinds * sizeof(int32_t) + 48);
    int32_t id = (int32_t) states.size();
    states.push_back({opens.size(), (int32_t) fresh.size(), fresh_complete});
    opens.insert(opens.end(), fresh.begin(), fresh.end());
    next.resize(next.size() + n_kinds, unknown);
    state_ids.emplace(hash, id);
    return id;
}

int32_t known::start(int64_t &budget) {
    if (first != unknown) {
        return first;
    }
    begin();
    const auto &root = rules.all[(size_t) rules.root];
    for (int32_t a = 0; a < root.n; a++) {
        expand(push(rules.sequences[(size_t) (root.first + a)], bottom), budget);
    }
    if ((first = intern()) == dead) {
        first = unknown;
        throw invalid("no text satisfies the grammar");
    }
    return first;
}

int32_t known::find(int32_t from, uint8_t byte, int64_t &budget) {
    begin();
    const state s = states[(size_t) from];
    pay(budget, 1 + s.n);
    for (size_t i = s.first; i < s.first + (size_t) s.n; i++) {
        const open o = opens[i];
        for (const gbnf::edge *e = rules.classes.begin(o.node); e != rules.classes.end(o.node); e++) {
            if (byte < e->low || byte > e->high) {
                continue;
            }
            if (e->next == gbnf::chars::done) {
                expand(o.then, budget);
            } else {
                fresh.push_back({e->next, o.then});
            }
            break; // a node's edges do not overlap
        }
    }
    int32_t to = intern();
    next[(size_t) from * n_kinds + kind[byte]] = to;
    return to;
}

const std::vector<uint64_t> &known::tokens(int32_t from, const lexicon &words, int64_t &budget) {
    auto found = allowed.find(from);
    if (found != allowed.end()) {
        return found->second;
    }
    std::vector<uint64_t> set(words.plain.size());
    std::vector<int32_t> path((size_t) words.deepest + 1);
    path[0] = from;
    const int32_t n = (int32_t) words.nodes.size();
    int32_t walked = 0;
    for (int32_t i = 0; i < n;) {
        if (++walked % nodes_a_step == 0) {
            pay(budget, 1);
        }
        const lexicon::node &w = words.nodes[(size_t) i];
        int32_t to = step(path[w.depth], w.byte, budget);
        if (to == dead) {
            i = w.end;
            continue;
        }
        path[w.depth + 1u] = to;
        for (int32_t t = w.tokens; t < w.tokens + w.n; t++) {
            int32_t id = words.ending[(size_t) t];
            set[(size_t) id / 64] |= 1ull << (id % 64);
        }
        i++;
    }
    grow(set.size() * sizeof(uint64_t) + 64);
    return allowed[from] = std::move(set);
}

int32_t known::adopt(const known &other, int32_t from, int64_t &budget) {
    begin();
    const state s = other.states[(size_t) from];
    fresh_complete = s.complete;
    std::unordered_map<int32_t, int32_t> moved{{bottom, bottom}};
    for (size_t i = s.first; i < s.first + (size_t) s.n; i++) {
        const open o = other.opens[i];
        todo.clear();
        int32_t below = o.then;
        for (; moved.count(below) == 0; below = other.stacks[(size_t) below].below) {
            todo.push_back(below);
        }
        pay(budget, 1 + (int64_t) todo.size());
        for (int32_t to = moved[below]; !todo.empty(); todo.pop_back()) {
            to = push(other.stacks[(size_t) todo.back()].at, to);
            moved[todo.back()] = to;
        }
        fresh.push_back({o.node, moved[o.then]});
    }
    return intern();
}

// --- grammars ---

grammar::grammar(const std::string &text)
    : rules(gbnf::parse(text)), known(std::make_shared<match::known>(rules)), fixed(text.size() + rules.size()) {
    int64_t budget = budget_first;
    known->start(budget); // what is too ambiguous from the start is refused here
    if (known->size() > max_known / 2) {
        throw invalid("what the grammar begins with takes too much memory: it is too ambiguous");
    }
    weigh();
}

std::shared_ptr<grammar> grammars::get(const std::string &text) {
    auto take = [&]() -> std::shared_ptr<grammar> {
        for (auto it = kept.begin(); it != kept.end(); ++it) {
            if (it->first == text) {
                kept.splice(kept.begin(), kept, it);
                return it->second;
            }
        }
        return nullptr;
    };
    {
        std::lock_guard<std::mutex> lock(mutex);
        if (auto g = take()) {
            return g;
        }
    }
    auto made = std::make_shared<grammar>(text); // without the lock: others need not wait for it
    std::lock_guard<std::mutex> lock(mutex);
    if (auto g = take()) {
        return g;
    }
    kept.emplace_front(text, made);
    size_t size = 0;
    for (const auto &k : kept) {
        size += k.second->size();
    }
    while (kept.size() > max_kept || (size > max_size && kept.size() > 1)) {
        size -= kept.back().second->size();
        kept.pop_back();
    }
    return made;
}

size_t grammars::size() {
    std::lock_guard<std::mutex> lock(mutex);
    size_t size = 0;
    for (const auto &k : kept) {
        size += k.second->size();
    }
    return size;
}

// --- a sequence's place ---

void reader::next() {
    budget = std::min(budget + budget_token, budget_first);
    if (!begun) {
        known = grammar->known;
        state = known->start(budget);
        begun = true;
    }
    if (known->size() > max_known) {
        // Full: go on in a new one, the grammar's if another sequence has begun it
        // and there is room for what this one brings along.
        if (grammar->known->size() > max_known / 2) {
            grammar->known = std::make_shared<match::known>(grammar->rules);
        }
        const size_t before = grammar->known->size();
        state = grammar->known->adopt(*known, state, budget);
        known = grammar->known;
        if (known->size() - before > max_known / 2) {
            throw invalid("the answer is nested too deeply for the grammar");
        }
    }
}

void reader::done() {
    if (grammar->known->size() > max_known) {
        grammar->known = std::make_shared<match::known>(grammar->rules);
    }
    grammar->weigh();
}

int32_t reader::after(int32_t token) {
    int32_t s = state;
    for (int32_t i = words.at[(size_t) token]; i < words.at[(size_t) token + 1] && s != known::dead; i++) {
        s = known->step(s, words.bytes[(size_t) i], budget);
    }
    return s;
}

bool reader::allows(int32_t token) {
    const uint64_t bit = 1ull << (token % 64);
    const size_t w = (size_t) token / 64;
    const uint64_t written = words.plain[w] | (control ? words.control[w] : 0);
    return (written & bit) && after(token) != known::dead;
}

void reader::accept(int32_t token) {
    state = after(token);
    if (state == known::dead) {
        throw std::runtime_error("a token was drawn that the grammar refuses");
    }
}

} // namespace match
