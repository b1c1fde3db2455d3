#include "text/chat/machine.h"

#include <algorithm>

namespace bora::text {

namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

size_t leading_space(std::string_view t) {
  size_t n = 0;
  while (n < t.size() && is_space(t[n])) ++n;
  return n;
}

size_t without_trailing_space(std::string_view t) {
  size_t n = t.size();
  while (n > 0 && is_space(t[n - 1])) --n;
  return n;
}

}  // namespace

bool valid_call_name(std::string_view name) {
  if (name.empty() || name.size() > 256) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) > 0x20 &&
           std::string_view("<>{}[]()\"'`,;").find(c) == std::string_view::npos;
  });
}

Machine::Machine(const AnswerOptions& options, const Layout& layout) : options_(options), layout_(layout) {
  if (layout_.nexts.empty()) layout_.nexts = layout_.starts;
  for (const Marker& m : layout_.starts) mark_first(m);
  mark_first(layout_.think_open);
  if (options.reasoning_open && !layout_.think_close.text.empty()) state_ = State::kReasoning;
}

void Machine::mark_first(const Marker& m) {
  if (!m.text.empty()) first_[static_cast<unsigned char>(m.text[0])] = true;
}

// ---- Input

void Machine::push(const AnswerPiece& piece, std::vector<AnswerDelta>* out) {
  if (piece.special && options_.markers_are_special) specials_.emplace_back(base_ + buf_.size(), piece.text.size());
  buf_.append(piece.text);
  out_ = out;
  run();
}

std::string_view Machine::finish(AnswerEnd end, std::vector<AnswerDelta>* out) {
  ended_ = true;
  out_ = out;
  run();
  if (state_ == State::kCall) {
    // Unfinished: what was not forwarded yet is text, and is not searched again.
    if (started_) {
      emit(AnswerDelta::Kind::kToolArguments, calls_, args_);
      args_.clear();
      ++calls_;
    } else {
      state_ = State::kText;
      content(std::string_view(buf_).substr(call_begin_));
      pos_ = buf_.size();
    }
  }
  if (calls_ == 0 && !hold_.empty()) emit(AnswerDelta::Kind::kContent, -1, hold_);
  if (end == AnswerEnd::kLength) return "length";
  return calls_ > 0 ? "tool_calls" : "stop";
}

void Machine::run() {
  while (step()) {
  }
  if (state_ == State::kCall && started_ && !args_.empty()) {
    emit(AnswerDelta::Kind::kToolArguments, calls_, args_);
    args_.clear();
  }
  compact();
}

void Machine::compact() {
  const size_t keep = state_ == State::kCall && !started_ ? std::min(call_begin_, pos_) : pos_;
  if (keep < 4096 || keep < buf_.size() / 2) return;
  buf_.erase(0, keep);
  base_ += keep;
  pos_ -= keep;
  call_begin_ -= std::min(call_begin_, keep);
  resume_ -= std::min(resume_, keep);
  const auto old = std::find_if(specials_.begin(), specials_.end(), [&](const auto& s) { return s.first >= base_; });
  specials_.erase(specials_.begin(), old);
}

bool Machine::special_at(size_t at, size_t size) const {
  const size_t absolute = base_ + at;
  const auto found = std::lower_bound(specials_.begin(), specials_.end(), std::pair<size_t, size_t>(absolute, 0));
  return found != specials_.end() && found->first == absolute && found->second == size;
}

Machine::Match Machine::match_at(size_t at, const Marker& m) const {
  if (m.text.empty()) return Match::kNo;
  const std::string_view have = std::string_view(buf_).substr(at, m.text.size());
  if (have != m.text.substr(0, have.size())) return Match::kNo;
  if (m.token && options_.markers_are_special) {
    if (have.empty()) return ended_ ? Match::kNo : Match::kPartial;
    return special_at(at, m.text.size()) ? Match::kYes : Match::kNo;
  }
  if (have.size() == m.text.size()) return Match::kYes;
  return ended_ ? Match::kNo : Match::kPartial;
}

bool Machine::skip_space() {
  while (has() && is_space(cur())) ++pos_;
  return has();
}

Machine::Step Machine::read_until(const Marker& stop, size_t limit, std::string* text) {
  while (has()) {
    if (cur() == stop.text[0]) {
      const Match m = match(stop);
      if (m == Match::kPartial) return Step::kMore;
      if (m == Match::kYes) {
        pos_ += stop.text.size();
        return Step::kDone;
      }
    }
    text->push_back(buf_[pos_++]);
    if (text->size() > limit) return Step::kBad;
  }
  return Step::kMore;
}

Machine::Step Machine::expect(const Marker& m) {
  if (!skip_space()) return Step::kMore;
  switch (match(m)) {
    case Match::kYes: pos_ += m.text.size(); return Step::kDone;
    case Match::kPartial: return Step::kMore;
    case Match::kNo: break;
  }
  return Step::kBad;
}

Machine::Step Machine::read_object(JsonPush* json) {
  if (!json->started()) {
    if (!skip_space()) return Step::kMore;
    if (cur() != '{') return Step::kBad;
  }
  while (has()) {
    const JsonPush::Result r = json->feed(cur(), &args_);
    if (r == JsonPush::Result::kBad) return Step::kBad;
    ++pos_;
    grown();
    if (r == JsonPush::Result::kDone) return Step::kDone;
  }
  return Step::kMore;
}

// ---- Output

void Machine::emit(AnswerDelta::Kind kind, int32_t index, std::string_view text) {
  if (text.empty()) return;
  if (!out_->empty() && out_->back().kind == kind && out_->back().tool_index == index &&
      kind != AnswerDelta::Kind::kToolName) {
    out_->back().text.append(text);
  } else {
    out_->push_back({kind, index, std::string(text)});
  }
}

// White space at the end waits: before a call it is dropped.
void Machine::content(std::string_view text) {
  if (content_lead_) {
    text.remove_prefix(leading_space(text));
    if (text.empty()) return;
    content_lead_ = false;
  }
  const size_t body = without_trailing_space(text);
  if (body > 0) {
    emit(AnswerDelta::Kind::kContent, -1, hold_);
    hold_.clear();
    emit(AnswerDelta::Kind::kContent, -1, text.substr(0, body));
    content_seen_ = true;
  }
  hold_.append(text.substr(body));
}

void Machine::reasoning(std::string_view text) {
  if (reasoning_lead_) {
    text.remove_prefix(leading_space(text));
    if (text.empty()) return;
    reasoning_lead_ = false;
  }
  const size_t body = without_trailing_space(text);
  if (body > 0) {
    emit(AnswerDelta::Kind::kReasoning, -1, reasoning_hold_);
    reasoning_hold_.clear();
    emit(AnswerDelta::Kind::kReasoning, -1, text.substr(0, body));
    any_reasoning_ = true;
  }
  reasoning_hold_.append(text.substr(body));
}

void Machine::start() {
  if (started_) return;
  started_ = true;
  hold_.clear();
  emit(AnswerDelta::Kind::kToolName, calls_, name_);
}

void Machine::commit() {
  start();
  emit(AnswerDelta::Kind::kToolArguments, calls_, args_);
  args_.clear();
  ++calls_;
  call_begin_ = pos_;
}

// ---- States

bool Machine::step() {
  switch (state_) {
    case State::kText: return step_text();
    case State::kReasoning: return step_reasoning();
    case State::kCall: return step_call();
    case State::kBetween: return step_between();
  }
  return false;
}

bool Machine::step_text() {
  size_t at = pos_;
  const bool fresh = !content_seen_ && calls_ == 0;  // nothing but white space so far
  const size_t lead = fresh ? pos_ + leading_space(rest()) : 0;
  const auto pass = [&] {
    content(std::string_view(buf_).substr(pos_, at - pos_));
    pos_ = at;
  };
  for (; at < buf_.size(); ++at) {
    if (!first_[static_cast<unsigned char>(buf_[at])]) continue;
    const bool blank = fresh && at <= lead;
    if (blank) {
      const Match m = match_at(at, layout_.think_open);
      if (m == Match::kPartial) return pass(), false;
      if (m == Match::kYes) {
        pos_ = at + layout_.think_open.text.size();
        hold_.clear();
        state_ = State::kReasoning;
        return true;
      }
    }
    if (layout_.at_start && !blank) continue;
    for (size_t i = 0; i < layout_.starts.size(); ++i) {
      const Match m = match_at(at, layout_.starts[i]);
      if (m == Match::kPartial) return pass(), false;
      if (m == Match::kYes) {
        pass();
        enter(i, false, at, layout_.starts[i].text.size());
        return true;
      }
    }
  }
  pass();
  return false;
}

bool Machine::step_reasoning() {
  while (!any_reasoning_ && reasoning_lead_ && skip_space()) {
    // A label of the block; or the prompt opened the block and the model opens it again.
    const Match label = match(layout_.think_label), again = match(layout_.think_open);
    if (label == Match::kPartial || again == Match::kPartial) return false;
    if (label == Match::kYes)
      pos_ += layout_.think_label.text.size();
    else if (again == Match::kYes)
      pos_ += layout_.think_open.text.size();
    else
      break;
  }
  for (size_t at = pos_; at <= buf_.size(); ++at) {
    const bool end = at == buf_.size();
    const Match m = end                                       ? Match::kNo
                    : buf_[at] == layout_.think_close.text[0] ? match_at(at, layout_.think_close)
                                                              : Match::kNo;
    if (!end && m == Match::kNo) continue;
    reasoning(std::string_view(buf_).substr(pos_, at - pos_));
    pos_ = at;
    if (m != Match::kYes) return false;
    pos_ += layout_.think_close.text.size();
    end_reasoning();
    state_ = State::kText;
    return true;
  }
  return false;
}

void Machine::enter(size_t which, bool next, size_t marker_begin, size_t marker_size) {
  call_begin_ = marker_begin;
  resume_ = pos_ = marker_begin + marker_size;
  named_ = started_ = false;
  name_.clear();
  args_.clear();
  state_ = State::kCall;
  begin(which, next);
}

bool Machine::step_call() {
  switch (call()) {
    case Step::kMore: return false;
    case Step::kDone: state_ = State::kBetween; return true;
    case Step::kBad: abandon(); return true;
  }
  return false;
}

// The call is broken. Forwarded parts stay; everything else is text.
void Machine::abandon() {
  state_ = State::kText;
  if (started_) {
    emit(AnswerDelta::Kind::kToolArguments, calls_, args_);
    args_.clear();
    ++calls_;
    return;
  }
  const size_t far = pos_, again = far - std::min(resume_, far);
  const bool affordable = reread_ + again <= 4 * (base_ + far) + 4096;
  const size_t upto = affordable ? std::min(resume_, far) : far;
  reread_ += affordable ? again : 0;
  content(std::string_view(buf_).substr(call_begin_, upto - call_begin_));
  pos_ = upto;
}

bool Machine::step_between() {
  const size_t before = pos_;
  skip_space();
  hold_.append(buf_, before, pos_ - before);  // dropped unless text follows
  if (!has()) return false;
  bool partial = false;
  for (const Marker& m : layout_.swallow) {
    const Match found = match(m);
    if (found == Match::kYes) {
      pos_ += m.text.size();
      hold_.clear();
      return true;
    }
    partial = partial || found == Match::kPartial;
  }
  for (size_t i = 0; i < layout_.nexts.size() && !layout_.at_start; ++i) {
    const Match found = match(layout_.nexts[i]);
    if (found == Match::kYes) {
      enter(i, true, pos_, layout_.nexts[i].text.size());
      return true;
    }
    partial = partial || found == Match::kPartial;
  }
  if (partial) return false;
  const size_t at = pos_;
  const Join join = joins();
  if (join == Join::kCall) {
    call_begin_ = at;
    resume_ = pos_;
    named_ = started_ = false;
    name_.clear();
    args_.clear();
    state_ = State::kCall;
  } else if (join == Join::kNo) {
    content_lead_ = false;
    state_ = State::kText;
  }
  return true;
}

}  // namespace bora::text
