// The next token of a sequence, with the semantics of llama.cpp's chain: logit bias,
// penalties, top_k, typical, top_p, min_p, temperature, draw.
//
// llama.cpp builds and sorts an array of the whole vocabulary for that,
// milliseconds a token. Here bias and penalties, which touch few tokens, are
// patched into the row and taken out again; the first truncating step picks a
// small exact candidate set by threshold; the steps after it are llama.cpp's
// own samplers on that set; and without truncation the draw walks the row.
//
// A grammar is asked about the drawn token alone. When it refuses that, the
// candidates it allows are drawn from again, and only when it allows none of
// them is the whole row masked. What is drawn has the distribution of the
// truncated row, conditioned on the grammar; where that is empty, of the row
// conditioned on the grammar and then truncated.
#include "rows.hpp"
#include "sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace {

using rows::candidate;
using rows::more;

constexpr float ninf = -std::numeric_limits<float>::infinity();
constexpr int greedy_tries = 64;          // best tokens a grammar is asked about first
constexpr int redraws = 8;                // single refusals before the whole row is masked
constexpr float least_temperature = 1e-6f; // below, a draw is the best token, and 1/temperature may be infinite
constexpr double typical_left_out = 1e-6; // mass typical sampling may not see: its order needs no exact tail

// patch writes into a row for the length of one draw. The row is the engine's
// and other requests and log-probabilities read it.
class patch {
    float *row;
    std::vector<std::pair<int32_t, float>> old;

  public:
    explicit patch(float *r) : row(r) {}
    ~patch() {
        for (size_t i = old.size(); i-- > 0;) {
            row[old[i].first] = old[i].second;
        }
    }
    patch(const patch &) = delete;
    patch &operator=(const patch &) = delete;

    void set(int32_t id, float logit) {
        old.emplace_back(id, row[id]);
        row[id] = logit;
    }
};

class draw {
    station_sampler &s;
    float *row;
    const int n;
    const bool no_eog;
    patch patched;
    std::vector<candidate> set;
    std::vector<float> blocks;

  public:
    draw(station_sampler &smp, float *r, int size, bool noeog) : s(smp), row(r), n(size), no_eog(noeog), patched(r) {}

    int32_t token() {
        if (rows::broken(row, n)) {
            throw std::runtime_error("the model's logits are not finite");
        }
        if (s.grammar) {
            s.grammar->next();
            if (s.grammar->over()) {
                return end_token();
            }
        }
        adjust();
        if (rows::max(row, n) == ninf) {
            return end_token(); // bias and no_eog left nothing
        }
        if (s.p.temperature < least_temperature) {
            return greedy();
        }
        return s.truncates() ? from_set() : from_row();
    }

  private:
    // Bias, then penalties as llama_sampler_penalties_apply has them.
    void adjust() {
        for (auto &b : s.bias) {
            patched.set(b.first, row[b.first] + b.second);
        }
        for (auto &c : s.recent.counts) {
            float l = row[c.first];
            patched.set(c.first, l <= 0 ? l * s.p.repeat_penalty : l / s.p.repeat_penalty);
        }
        for (auto &c : s.answer) {
            patched.set(c.first, row[c.first] - (float) c.second * s.p.frequency_penalty - s.p.presence_penalty);
        }
        if (no_eog) {
            for (int32_t t : s.engine->eog) {
                patched.set(t, ninf);
            }
        }
    }

    // An answer that can only end ends, asked to or not.
    int32_t end_token() const {
        if (s.grammar && !s.grammar->complete()) {
            throw gbnf::invalid("no token of the vocabulary goes on in it");
        }
        const auto &eog = s.engine->eog;
        if (eog.empty()) {
            throw std::runtime_error("no token is left to sample");
        }
        int32_t eos = llama_vocab_eos(s.engine->vocab);
        return eos >= 0 ? eos : eog[0];
    }

    // --- grammar ---

    bool allowed(int32_t id) const {
        if (!s.grammar) {
            return true;
        }
        return llama_vocab_is_eog(s.engine->vocab, id) ? s.grammar->complete() : s.grammar->allows(id);
    }

    // allow drops the candidates the grammar refuses.
    void allow(std::vector<candidate> &c) const {
        c.erase(std::remove_if(c.begin(), c.end(), [&](const candidate &x) { return !allowed(x.id); }), c.end());
    }

    // mask_row goes on with a copy of the row that has only what the grammar
    // allows, and says whether that is anything.
    bool mask_row() {
        std::vector<float> &masked = s.engine->masked;
        masked.assign((size_t) n, ninf);
        s.grammar->tokens([&](size_t word, uint64_t bits) {
            const size_t at = word * 64;
            if (bits == ~0ull) {
                std::copy_n(row + at, 64, masked.data() + at);
                return;
            }
            for (; bits; bits &= bits - 1) {
                const size_t i = at + (size_t) __builtin_ctzll(bits);
                masked[i] = row[i];
            }
        });
        if (s.grammar->complete()) {
            for (int32_t t : s.engine->eog) {
                masked[(size_t) t] = row[t];
            }
        }
        row = masked.data();
        return rows::max(row, n) != ninf;
    }

    // --- the three ways to draw ---

    int32_t greedy() {
        int32_t best = rows::argmax(row, n);
        if (allowed(best)) {
            return best;
        }
        pick_top(greedy_tries);
        for (const candidate &c : set) {
            if (allowed(c.id)) {
                return c.id;
            }
        }
        return mask_row() ? rows::argmax(row, n) : end_token();
    }

    int32_t from_set() {
        truncate();
        int32_t id = draw_from_set();
        if (allowed(id)) {
            return id;
        }
        allow(set);
        if (!set.empty()) {
            return draw_from_set();
        }
        if (!mask_row()) {
            return end_token();
        }
        truncate();
        return draw_from_set();
    }

    // Drawing again without the refused token gives what the grammar allows its
    // share of the distribution, exactly.
    int32_t from_row() {
        for (int i = 0; i < redraws; i++) {
            int32_t id = draw_from_row();
            if (allowed(id)) {
                return id;
            }
            patched.set(id, ninf);
            if (rows::max(row, n) == ninf) {
                return end_token();
            }
        }
        return mask_row() ? draw_from_row() : end_token();
    }

    // --- candidates ---

    void gather_above(float least) {
        set.clear();
        rows::gather(row, n, least, set);
    }

    void pick_top(int k) {
        k = std::min(k, n);
        gather_above(rows::least_of_top(row, n, rows::max(row, n), k));
        if ((int) set.size() > k) {
            std::nth_element(set.begin(), set.begin() + (k - 1), set.end(), more);
            set.resize((size_t) k);
        }
        std::sort(set.begin(), set.end(), more);
    }

    // pick_mass gathers candidates that hold at least share of the mass, and gives the total.
    double pick_mass(double share) {
        float top = rows::max(row, n);
        rows::mass m = rows::measure(row, n, top, 1, nullptr);
        float least = std::numeric_limits<float>::lowest();
        for (int i = 0; i < rows::n_cuts; i++) {
            if (m.above[i] >= share * m.total) {
                least = top - rows::cuts[i];
                break;
            }
        }
        gather_above(least);
        return m.total;
    }

    void pick_nucleus() {
        double total = pick_mass(std::min(1.0, (double) s.p.top_p + 1e-5));
        std::sort(set.begin(), set.end(), more);
        std::vector<float> p = weights(1);
        double want = s.p.top_p * total, sum = 0;
        for (size_t i = 0; i < set.size(); i++) {
            sum += p[i];
            if (sum >= want) {
                set.resize(i + 1);
                return;
            }
        }
    }

    // truncate fills set: the first step by selection, the others by llama.cpp's samplers.
    void truncate() {
        bool typical = s.p.typical_p < 1, top_p = s.p.top_p < 1, min_p = s.p.min_p > 0;
        if (s.p.top_k > 0) {
            pick_top(s.p.top_k);
        } else if (typical) {
            pick_mass(1 - typical_left_out);
            std::sort(set.begin(), set.end(), more);
        } else if (top_p) {
            pick_nucleus();
            top_p = false;
        } else {
            gather_above(rows::max(row, n) + logf(s.p.min_p)); // llama.cpp leaves these in order of id, too
            min_p = false;
        }
        if (!typical && !top_p && !min_p) {
            return;
        }
        std::vector<llama_token_data> data(set.size());
        for (size_t i = 0; i < set.size(); i++) {
            data[i] = {set[i].id, set[i].logit, 0};
        }
        llama_token_data_array a = {data.data(), data.size(), -1, true};
        if (typical) {
            llama_sampler_apply(s.typical.get(), &a);
        }
        if (top_p) {
            llama_sampler_apply(s.top_p.get(), &a);
        }
        if (min_p) {
            llama_sampler_apply(s.min_p.get(), &a);
        }
        set.clear();
        for (size_t i = 0; i < a.size; i++) {
            set.push_back({a.data[i].id, a.data[i].logit});
        }
    }

    // weights gives each candidate its mass, the most likely one 1.
    std::vector<float> weights(float scale) const {
        std::vector<float> x(set.size());
        float top = ninf;
        for (size_t i = 0; i < set.size(); i++) {
            x[i] = set[i].logit;
            top = std::max(top, x[i]);
        }
        rows::exps(x.data(), (int) x.size(), top, scale, x.data());
        return x;
    }

    // --- draws: one uniform number each, as llama_sampler_dist takes it ---

    double uniform() { return std::uniform_real_distribution<double>(0, 1)(s.rng); }

    int32_t draw_from_set() {
        if (set.size() == 1) {
            return set[0].id;
        }
        std::vector<float> p = weights(1 / s.p.temperature);
        double sum = 0, run = 0;
        for (float w : p) {
            sum += w;
        }
        double want = sum * uniform();
        for (size_t i = 0; i < set.size(); i++) {
            run += p[i];
            if (run >= want) {
                return set[i].id;
            }
        }
        return set.back().id;
    }

    int32_t draw_from_row() {
        float top = rows::max(row, n), scale = 1 / s.p.temperature;
        rows::mass m = rows::measure(row, n, top, scale, &blocks);
        double want = m.total * uniform(), run = 0;
        int32_t last = -1;
        for (size_t b = 0; b < blocks.size(); b++) {
            if (run + blocks[b] < want) {
                run += blocks[b];
                continue;
            }
            int from = (int) b * rows::block, len = std::min(n - from, rows::block);
            float e[rows::block];
            rows::exps(row + from, len, top, scale, e);
            for (int i = 0; i < len; i++) {
                if (e[i] > 0) {
                    last = from + i;
                }
                run += e[i];
                if (run >= want && e[i] > 0) {
                    return from + i;
                }
            }
        }
        // rounding ran past the end: the last token with any mass
        return last >= 0 ? last : rows::argmax(row, n);
    }
};

} // namespace

int32_t station_draw(station_sampler &s, float *row, int n, bool no_eog) { return draw(s, row, n, no_eog).token(); }
