// The grammar of grammars: llama.cpp's, with repetitions written out as rules
// of their own, so that each step of one is a reference and nothing is copied.
#include "gbnf.hpp"

#include <algorithm>
#include <unordered_map>

namespace gbnf {

namespace {

using sequence = std::vector<int32_t>;

class parser {
    const std::string &src;
    size_t pos = 0;
    size_t items = 0; // as max_items counts
    rules out;
    std::unordered_map<std::string, int32_t> ids;
    std::vector<std::string> names; // of the rules that have one
    std::vector<int32_t> in_name;   // by rule: its name, or that of the rule it is written in

  public:
    explicit parser(const std::string &text) : src(text) {}

    rules parse() {
        blank(true);
        while (pos < src.size()) {
            rule();
        }
        for (size_t r = 0; r < out.all.size(); r++) {
            if (!out.all[r].defined) {
                throw invalid("the rule " + name_of((int32_t) r) + " is used and not defined");
            }
        }
        auto root = ids.find("root");
        if (root == ids.end()) {
            throw invalid("there is no rule named root");
        }
        out.root = root->second;
        int32_t left = left_recursive(out);
        if (left >= 0) {
            throw invalid("the rule " + name_of(left) + " is left-recursive: it begins with itself");
        }
        out.classes.finish();
        return std::move(out);
    }

  private:
    [[noreturn]] void fail(const std::string &what) const {
        auto line = 1 + std::count(src.begin(), src.begin() + (long) std::min(pos, src.size()), '\n');
        throw invalid("line " + std::to_string(line) + ": " + what);
    }

    char peek(size_t ahead = 0) const { return pos + ahead < src.size() ? src[pos + ahead] : 0; }

    // blank skips blanks and comments, and line ends where the rule goes on behind them.
    void blank(bool lines) {
        for (; pos < src.size(); pos++) {
            char c = src[pos];
            if (c == '#') {
                while (pos + 1 < src.size() && src[pos + 1] != '\n' && src[pos + 1] != '\r') {
                    pos++;
                }
            } else if (c != ' ' && c != '\t' && !(lines && (c == '\n' || c == '\r'))) {
                return;
            }
        }
    }

    static bool is_digit(char c) { return c >= '0' && c <= '9'; }
    static bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || is_digit(c); }

    std::string name() {
        size_t from = pos;
        while (is_word(peek())) {
            pos++;
        }
        if (pos == from) {
            fail("want the name of a rule: letters, digits and dashes");
        }
        if (pos - from > max_name) {
            fail("the name of a rule has more than " + std::to_string(max_name) + " bytes: " + src.substr(from, 32) + "...");
        }
        return src.substr(from, pos - from);
    }

    const std::string &name_of(int32_t rule) const { return names[(size_t) in_name[(size_t) rule]]; }

    // --- rules ---

    // made gives a new rule, called as number in of names.
    int32_t made(int32_t in) {
        in_name.push_back(in);
        out.all.emplace_back();
        return (int32_t) out.all.size() - 1;
    }

    int32_t id(const std::string &named) {
        auto it = ids.find(named);
        if (it != ids.end()) {
            return it->second;
        }
        names.push_back(named);
        return ids[named] = made((int32_t) names.size() - 1);
    }

    void charge(size_t n) {
        items += n;
        if (items > max_items) {
            fail("the grammar is too large: repetitions and classes written out, it has more than " + std::to_string(max_items) + " items");
        }
    }

    void define(int32_t rule, const std::vector<sequence> &alternatives) {
        auto &r = out.all[(size_t) rule];
        r.defined = true;
        r.first = (int32_t) out.sequences.size();
        r.n = (int32_t) alternatives.size();
        for (const sequence &a : alternatives) {
            charge(1);
            out.sequences.push_back((int32_t) out.items.size());
            out.items.insert(out.items.end(), a.begin(), a.end());
            out.items.push_back(rules::end);
        }
    }

    void rule() {
        std::string named = name();
        int32_t rule = id(named);
        if (out.all[(size_t) rule].defined) {
            fail("the rule " + named + " is defined twice");
        }
        blank(false);
        if (src.compare(pos, 3, "::=") != 0) {
            fail("want ::= after " + named);
        }
        pos += 3;
        blank(true);
        define(rule, alternatives(in_name[(size_t) rule], 0));
        if (pos < src.size() && peek() != '\n' && peek() != '\r') {
            fail(std::string("want the end of the line, not ") + peek());
        }
        blank(true);
    }

    std::vector<sequence> alternatives(int32_t in, int depth) {
        std::vector<sequence> all{one(in, depth)};
        while (peek() == '|') {
            pos++;
            blank(true);
            all.push_back(one(in, depth));
        }
        return all;
    }

    // one reads a sequence of symbols.
    sequence one(int32_t in, int depth) {
        sequence s;
        size_t last = 0; // where the symbol begins that a repetition repeats
        bool any = false;
        for (;; any = true) {
            char c = peek();
            if (c == '"') {
                last = s.size();
                literal(s);
            } else if (c == '[') {
                last = s.size();
                charge(1);
                s.push_back(char_class());
            } else if (c == '.') {
                last = s.size();
                charge(1);
                pos++;
                s.push_back(class_of({}, true));
            } else if (c == '(') {
                last = s.size();
                charge(1);
                s.push_back(group(in, depth + 1));
            } else if (is_word(c)) {
                last = s.size();
                charge(1);
                s.push_back(rules::reference(id(name())));
            } else if (c == '*' || c == '+' || c == '?' || c == '{') {
                if (!any) {
                    fail(std::string("nothing stands before ") + c);
                }
                repetition(s, last, in);
            } else if (c == '<' || c == '!') {
                fail("tokens by name or number are not taken; write their text, and have control tokens written as text");
            } else {
                return s;
            }
            blank(depth > 0);
        }
    }

    int32_t group(int32_t in, int depth) {
        if (depth > max_depth) {
            fail("parentheses are nested deeper than " + std::to_string(max_depth));
        }
        pos++;
        blank(true);
        int32_t rule = made(in);
        define(rule, alternatives(in, depth));
        if (peek() != ')') {
            fail("a ( is not closed");
        }
        pos++;
        return rules::reference(rule);
    }

    void repetition(sequence &s, size_t last, int32_t in) {
        int32_t least = 0, most = -1;
        char c = src[pos++];
        switch (c) {
        case '+': least = 1; break;
        case '?': most = 1; break;
        case '{':
            blank(false);
            least = number();
            blank(false);
            most = least;
            if (peek() == ',') {
                pos++;
                blank(false);
                most = is_digit(peek()) ? number() : -1;
                blank(false);
            }
            if (peek() != '}') {
                fail("want } after the bounds of a repetition");
            }
            pos++;
            if (most >= 0 && most < least) {
                fail("a repetition's upper bound is below its lower one");
            }
        }
        if (last == s.size()) {
            return; // of an empty text
        }
        int32_t unit = s[last];
        if (s.size() - last > 1) {
            int32_t rule = made(in);
            define(rule, {sequence(s.begin() + (long) last, s.end())});
            unit = rules::reference(rule);
        }
        s.resize(last);
        charge((size_t) least);
        s.insert(s.end(), (size_t) least, unit);
        if (most < 0) { // more ::= unit more |
            int32_t more = rules::reference(made(in));
            charge(3);
            define(rules::referred(more), {{unit, more}, {}});
            s.push_back(more);
        } else if (most > least) { // up-to-n ::= unit up-to-n-1 |
            int32_t upto = 0;
            for (int32_t n = 1; n <= most - least; n++) {
                int32_t rule = made(in);
                charge(3);
                define(rule, n == 1 ? std::vector<sequence>{{unit}, {}} : std::vector<sequence>{{unit, upto}, {}});
                upto = rules::reference(rule);
            }
            s.push_back(upto);
        }
    }

    int32_t number() {
        if (!is_digit(peek())) {
            fail("want a number in {}");
        }
        int32_t n = 0;
        for (; is_digit(peek()); pos++) {
            n = n * 10 + (peek() - '0');
            if (n > max_repeat) {
                fail("a repetition is larger than " + std::to_string(max_repeat));
            }
        }
        return n;
    }

    // --- characters ---

    void literal(sequence &s) {
        for (pos++; peek() != '"';) {
            uint32_t c = character("a string");
            charge(1);
            s.push_back(class_of({{c, c}}, false));
        }
        pos++;
    }

    int32_t char_class() {
        std::vector<range> set;
        pos++;
        bool inverted = peek() == '^';
        pos += inverted;
        while (peek() != ']') {
            uint32_t low = character("a class"), high = low;
            if (peek() == '-' && peek(1) != ']') {
                pos++;
                high = character("a class");
            }
            if (high < low) {
                fail("a range of characters ends before it begins");
            }
            charge(1);
            set.push_back({low, high});
        }
        if (set.empty()) {
            fail("a class of characters is empty");
        }
        pos++;
        return class_of(std::move(set), inverted);
    }

    // class_of charges what the class adds: thousands of large ones, each another
    // one, would take memory and time that their text does not show.
    int32_t class_of(std::vector<range> set, bool inverted) {
        const size_t before = out.classes.all().size();
        int32_t node = out.classes.add(std::move(set), inverted);
        charge(out.classes.all().size() - before);
        return node;
    }

    uint32_t character(const char *in) {
        if (pos >= src.size()) {
            fail(std::string("the grammar ends inside ") + in);
        }
        if (peek() != '\\') {
            return utf8();
        }
        pos++;
        char c = peek();
        pos++;
        switch (c) {
        case 'x': return hex(2);
        case 'u': return hex(4);
        case 'U': return hex(8);
        case 't': return '\t';
        case 'r': return '\r';
        case 'n': return '\n';
        case '\\':
        case '"':
        case '[':
        case ']': return (uint32_t) c;
        }
        fail(std::string("no character is written \\") + c);
    }

    uint32_t hex(int digits) {
        uint32_t value = 0;
        for (int i = 0; i < digits; i++, pos++) {
            char c = peek();
            int d = is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
            if (d < 0) {
                fail("want " + std::to_string(digits) + " hexadecimal digits");
            }
            value = value << 4 | (uint32_t) d;
        }
        if (value > 0x10FFFF) {
            fail("a character is above U+10FFFF");
        }
        return value;
    }

    uint32_t utf8() {
        auto byte = [&](size_t i) { return (uint8_t) peek(i); };
        uint32_t c = byte(0);
        int more = c < 0x80 ? 0 : c >= 0xC2 && c < 0xE0 ? 1 : c >= 0xE0 && c < 0xF0 ? 2 : c >= 0xF0 && c < 0xF5 ? 3 : -1;
        if (more < 0) {
            fail("the grammar is not UTF-8");
        }
        c &= more == 0 ? 0x7Fu : 0x3Fu >> more;
        for (int i = 1; i <= more; i++) {
            if ((byte((size_t) i) & 0xC0) != 0x80) {
                fail("the grammar is not UTF-8");
            }
            c = c << 6 | (byte((size_t) i) & 0x3Fu);
        }
        pos += (size_t) more + 1;
        return c;
    }
};

} // namespace

rules parse(const std::string &text) { return parser(text).parse(); }

} // namespace gbnf
