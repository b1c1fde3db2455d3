// Subset construction. Assertions look at one character on each side: whether the one before was a word character is
// part of a state, the one after is known when a transition is taken, so closures are computed per transition.
#include "text/grammar/dfa.h"

#include <algorithm>
#include <map>

namespace bora::text {
namespace {

constexpr size_t kMaxNfa = 20000;

struct NfaNode {
  int32_t set = -1;        // consuming edge over classes[set] to next
  int32_t assertion = -1;  // epsilon edge to next under an AssertKind
  std::vector<uint32_t> epsilon;
  uint32_t next = 0;
};

// Splits all code points so that every given set is a union of the parts.
std::vector<CharClass> partition(const std::vector<CharClass>& sets) {
  std::vector<uint32_t> cuts = {0, 0xD800, 0xE000};
  for (const CharClass& s : sets) {
    for (CodeSpan span : s.spans()) {
      cuts.push_back(span.lo);
      cuts.push_back(span.hi + 1);
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::map<std::vector<bool>, std::vector<CodeSpan>> groups;
  for (size_t i = 0; i < cuts.size(); ++i) {
    uint32_t lo = cuts[i];
    uint32_t hi = i + 1 < cuts.size() ? cuts[i + 1] - 1 : kMaxCodePoint;
    if (lo > kMaxCodePoint || (lo >= 0xD800 && lo <= 0xDFFF)) continue;
    std::vector<bool> member(sets.size());
    for (size_t s = 0; s < sets.size(); ++s) member[s] = sets[s].contains(lo);
    groups[member].push_back({lo, hi});
  }
  std::vector<CharClass> out;
  for (auto& [member, spans] : groups) out.emplace_back(std::move(spans));
  return out;
}

}  // namespace

class DfaBuilder {
 public:
  explicit DfaBuilder(bool unicode_words) : word_(word_class(unicode_words)) {}

  Result<Dfa> build(const Expr& e) {
    uint32_t final = node();
    BORA_ASSIGN(uint32_t start, add(e, final));
    std::vector<CharClass> sets = sets_;
    sets.push_back(word_);
    Dfa dfa;
    dfa.symbols_ = partition(sets);
    std::vector<std::vector<char>> member(dfa.symbols_.size(), std::vector<char>(sets_.size()));
    std::vector<char> is_word(dfa.symbols_.size());
    for (size_t y = 0; y < dfa.symbols_.size(); ++y) {
      uint32_t sample = dfa.symbols_[y].spans()[0].lo;
      is_word[y] = word_.contains(sample);
      for (size_t s = 0; s < sets_.size(); ++s) member[y][s] = sets_[s].contains(sample);
    }
    std::vector<State> states;
    std::map<State, uint32_t> ids;
    auto intern = [&](State s) {
      auto [it, fresh] = ids.emplace(s, static_cast<uint32_t>(states.size()));
      if (fresh) states.push_back(std::move(s));
      return it->second;
    };
    intern({{start}, kAtStart});
    for (size_t i = 0; i < states.size(); ++i) {
      if (states.size() > Dfa::kMaxStates) return invalid_argument("pattern needs too many states");
      State s = states[i];
      std::vector<uint32_t> closed[2] = {closure(s, false, false), closure(s, true, false)};
      for (size_t y = 0; y < dfa.symbols_.size(); ++y) {
        State to{{}, is_word[y] ? kAfterWord : kAfterOther};
        for (uint32_t n : closed[static_cast<size_t>(is_word[y])]) {
          int32_t set = nfa_[n].set;
          if (set >= 0 && member[y][static_cast<size_t>(set)]) to.nodes.push_back(nfa_[n].next);
        }
        std::sort(to.nodes.begin(), to.nodes.end());
        to.nodes.erase(std::unique(to.nodes.begin(), to.nodes.end()), to.nodes.end());
        if (to.nodes.empty() || !asserts_) to.before = kAfterOther;
        dfa.next_.push_back(intern(std::move(to)));
      }
      std::vector<uint32_t> at_end = closure(s, false, true);
      dfa.accept_.push_back(std::find(at_end.begin(), at_end.end(), final) != at_end.end());
    }
    return dfa;
  }

 private:
  enum Before : uint8_t { kAtStart, kAfterWord, kAfterOther };
  struct State {
    std::vector<uint32_t> nodes;
    Before before;
    bool operator<(const State& o) const { return std::tie(before, nodes) < std::tie(o.before, o.nodes); }
  };

  uint32_t node() {
    nfa_.emplace_back();
    return static_cast<uint32_t>(nfa_.size() - 1);
  }

  Result<uint32_t> add(const Expr& e, uint32_t next) {
    if (nfa_.size() > kMaxNfa) return invalid_argument("pattern is too large");
    switch (e.kind) {
      case ExprKind::kEmpty:
        return next;
      case ExprKind::kClass: {
        uint32_t n = node();
        auto it = std::find(sets_.begin(), sets_.end(), e.set);
        nfa_[n].set = static_cast<int32_t>(it - sets_.begin());
        if (it == sets_.end()) sets_.push_back(e.set);
        nfa_[n].next = next;
        return n;
      }
      case ExprKind::kConcat:
        for (size_t i = e.parts.size(); i-- > 0;) {
          BORA_ASSIGN(next, add(e.parts[i], next));
        }
        return next;
      case ExprKind::kAlt: {
        uint32_t n = node();
        for (const Expr& p : e.parts) {
          BORA_ASSIGN(uint32_t start, add(p, next));
          nfa_[n].epsilon.push_back(start);
        }
        return n;
      }
      case ExprKind::kRepeat:
        return add_repeat(e, next);
      case ExprKind::kAssert: {
        uint32_t n = node();
        nfa_[n].assertion = static_cast<int32_t>(e.assertion);
        nfa_[n].next = next;
        asserts_ = true;
        return n;
      }
      case ExprKind::kRule:
        break;
    }
    return internal_error("rule in a pattern");
  }

  Result<uint32_t> add_repeat(const Expr& e, uint32_t next) {
    uint32_t at = next;
    if (e.max == kUnbounded) {
      at = node();
      BORA_ASSIGN(uint32_t start, add(e.parts[0], at));
      nfa_[at].epsilon = {start, next};
    } else {
      for (uint32_t i = e.min; i < e.max; ++i) {
        BORA_ASSIGN(uint32_t start, add(e.parts[0], at));
        uint32_t n = node();
        nfa_[n].epsilon = {start, next};
        at = n;
      }
    }
    for (uint32_t i = 0; i < e.min; ++i) {
      if (e.parts[0].kind == ExprKind::kEmpty) break;
      BORA_ASSIGN(at, add(e.parts[0], at));
    }
    return at;
  }

  std::vector<uint32_t> closure(const State& s, bool next_word, bool end) const {
    std::vector<uint32_t> out = s.nodes;
    std::vector<char> in(nfa_.size(), 0);
    for (uint32_t n : out) in[n] = 1;
    auto visit = [&](uint32_t n) {
      if (!in[n]) out.push_back(n);
      in[n] = 1;
    };
    for (size_t i = 0; i < out.size(); ++i) {
      const NfaNode& n = nfa_[out[i]];
      for (uint32_t to : n.epsilon) visit(to);
      if (n.assertion < 0) continue;
      bool boundary = (s.before == kAfterWord) != (next_word && !end);
      bool holds = false;
      switch (static_cast<AssertKind>(n.assertion)) {
        case AssertKind::kStart:
          holds = s.before == kAtStart;
          break;
        case AssertKind::kEnd:
          holds = end;
          break;
        case AssertKind::kWord:
          holds = boundary;
          break;
        case AssertKind::kNotWord:
          holds = !boundary;
          break;
      }
      if (holds) visit(n.next);
    }
    return out;
  }

  CharClass word_;
  std::vector<NfaNode> nfa_;
  std::vector<CharClass> sets_;
  bool asserts_ = false;
};

Result<Dfa> Dfa::from_expr(const Expr& e, bool unicode_words) { return DfaBuilder(unicode_words).build(e); }

Dfa Dfa::any() {
  Dfa d;
  d.symbols_ = {CharClass::any()};
  d.next_ = {0};
  d.accept_ = {1};
  return d;
}

Dfa Dfa::complement() const {
  Dfa d = *this;
  for (char& a : d.accept_) a = a ? 0 : 1;
  return d;
}

Result<Dfa> Dfa::intersect(const Dfa& other) const {
  std::vector<CharClass> sets = symbols_;
  sets.insert(sets.end(), other.symbols_.begin(), other.symbols_.end());
  Dfa d;
  d.symbols_ = partition(sets);
  auto symbol_of = [](const std::vector<CharClass>& symbols, uint32_t c) {
    size_t y = 0;
    while (!symbols[y].contains(c)) ++y;
    return y;
  };
  std::vector<std::pair<size_t, size_t>> from;
  for (const CharClass& s : d.symbols_) {
    uint32_t c = s.spans()[0].lo;
    from.emplace_back(symbol_of(symbols_, c), symbol_of(other.symbols_, c));
  }
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> ids = {{{0, 0}, 0}};
  std::vector<std::pair<uint32_t, uint32_t>> states = {{0, 0}};
  for (size_t i = 0; i < states.size(); ++i) {
    if (states.size() > kMaxStates) return invalid_argument("combined patterns need too many states");
    auto [a, b] = states[i];
    d.accept_.push_back(accept_[a] && other.accept_[b]);
    for (auto [x, y] : from) {
      std::pair<uint32_t, uint32_t> to{next_[a * symbols_.size() + x], other.next_[b * other.symbols_.size() + y]};
      auto [it, fresh] = ids.emplace(to, static_cast<uint32_t>(states.size()));
      if (fresh) states.push_back(to);
      d.next_.push_back(it->second);
    }
  }
  return d;
}

bool Dfa::matches(std::string_view utf8) const {
  uint32_t state = 0;
  for (size_t pos = 0; pos < utf8.size();) {
    auto c = decode_utf8(utf8, &pos);
    if (!c) return false;
    size_t y = 0;
    while (y < symbols_.size() && !symbols_[y].contains(*c)) ++y;
    if (y == symbols_.size()) return false;
    state = next_[state * symbols_.size() + y];
  }
  return accept_[state] != 0;
}

bool Dfa::empty() const { return std::find(accept_.begin(), accept_.end(), 1) == accept_.end(); }

NodeId Dfa::compile(bool json, NodeId next, ProgramBuilder* out) const {
  std::vector<NodeId> starts;
  for (size_t s = 0; s < accept_.size(); ++s) starts.push_back(out->reserve());
  for (size_t s = 0; s < accept_.size(); ++s) {
    std::map<uint32_t, CharClass> edges;
    for (size_t y = 0; y < symbols_.size(); ++y) {
      CharClass& set = edges[next_[s * symbols_.size() + y]];
      set = set.with(symbols_[y]);
    }
    std::vector<NodeId> options;
    for (auto& [to, set] : edges) {
      bool free_tail = json && to == s && edges.size() == 1 && accept_[s] && out->is_quote(next);
      options.push_back(free_tail ? out->string_body(0, kUnbounded, next) : out->cls(set, json, starts[to]));
    }
    if (accept_[s]) options.push_back(next);
    out->set_split(starts[s], std::move(options));
  }
  return starts[0];
}

}  // namespace bora::text
