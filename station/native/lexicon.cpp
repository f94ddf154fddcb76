#include "lexicon.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace {

// piece gives a token's bytes as vocab.go has them.
std::string piece(const llama_vocab *vocab, int32_t token) {
    std::string out(64, 0);
    int n = llama_token_to_piece(vocab, token, out.data(), (int32_t) out.size(), 0, true);
    if (n < 0) {
        out.resize((size_t) -n);
        n = llama_token_to_piece(vocab, token, out.data(), (int32_t) out.size(), 0, true);
    }
    out.resize((size_t) std::max(n, 0));
    return out;
}

} // namespace

lexicon::lexicon(const llama_vocab *vocab) {
    const int32_t n = llama_vocab_n_tokens(vocab);
    std::vector<std::string> pieces((size_t) n);
    std::vector<int32_t> order;
    plain.resize(((size_t) n + 63) / 64);
    control.resize(plain.size());
    at.push_back(0);
    for (int32_t t = 0; t < n; t++) {
        std::string &p = pieces[(size_t) t];
        if (!llama_vocab_is_eog(vocab, t)) {
            p = piece(vocab, t);
        }
        if (!p.empty() && p.size() <= longest) {
            auto &set = llama_vocab_is_control(vocab, t) ? control : plain;
            set[(size_t) t / 64] |= 1ull << (t % 64);
            order.push_back(t);
        }
        bytes.insert(bytes.end(), p.begin(), p.end());
        at.push_back((int32_t) bytes.size());
    }
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        int c = pieces[(size_t) a].compare(pieces[(size_t) b]);
        return c != 0 ? c < 0 : a < b;
    });

    std::vector<size_t> path; // nodes of the piece before
    const std::string *before = nullptr;
    for (int32_t t : order) {
        const std::string &p = pieces[(size_t) t];
        size_t same = 0;
        while (before && same < p.size() && same < before->size() && p[same] == (*before)[same]) {
            same++;
        }
        for (size_t i = same; i < path.size(); i++) {
            nodes[path[i]].end = (int32_t) nodes.size();
        }
        path.resize(same);
        for (size_t i = same; i < p.size(); i++) {
            path.push_back(nodes.size());
            nodes.push_back({0, 0, 0, (uint16_t) i, (uint8_t) p[i]});
        }
        node &last = nodes[path.back()];
        if (last.n == UINT16_MAX) {
            throw std::runtime_error("too many tokens write the same text");
        }
        if (last.n++ == 0) {
            last.tokens = (int32_t) ending.size();
        }
        ending.push_back(t);
        deepest = std::max(deepest, (int) p.size());
        before = &p;
    }
    for (size_t i : path) {
        nodes[i].end = (int32_t) nodes.size();
    }
}
