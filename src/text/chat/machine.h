// The state machine that all formats share: text, reasoning, calls, and what lies between calls.
//
// A format says where a call begins and reads one call from the cursor. A call is tentative until it is complete or
// its arguments have grown beyond kHold bytes; from then on its arguments are forwarded as they come. A tentative
// call that turns out broken is text again: its start marker becomes content and reading resumes behind it. All
// decisions are made at character positions, never at piece borders, so every split of the text gives the same
// answer.
//
// Cost: text is looked at once, plus what broken calls make us read again; that is bounded by a multiple of the
// text's length.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat/chat.h"
#include "text/chat/json_push.h"

namespace bora::text {

// `token`: a single token of the family's vocabulary, so it counts only as a special piece when markers are special.
struct Marker {
  std::string_view text;
  bool token = true;
};

struct Layout {
  std::span<const Marker> starts;      // begin a call
  std::span<const Marker> swallow;     // skipped between and after calls
  std::span<const Marker> nexts;       // begin another call right after one; empty: as starts
  Marker think_open{}, think_close{};  // empty text: no reasoning
  Marker think_label{};                // skipped right behind think_open
  bool at_start = false;               // calls only before any other text
};

class Machine : public AnswerParser {
 public:
  void push(const AnswerPiece& piece, std::vector<AnswerDelta>* out) final;
  std::string_view finish(AnswerEnd end, std::vector<AnswerDelta>* out) final;

 protected:
  enum class Step : uint8_t { kMore, kBad, kDone };
  enum class Match : uint8_t { kNo, kPartial, kYes };

  Machine(const AnswerOptions& options, const Layout& layout);

  // The cursor stands behind start marker `which` (of starts, or of nexts when `next`): forget the last call.
  virtual void begin(size_t which, bool next) = 0;
  // Reads on; kDone after commit(). kBad leaves the cursor anywhere.
  virtual Step call() = 0;
  // Between calls, at a character that is no space and no marker: kCall if it begins another call (the format is
  // ready to read it), kSkipped if it was consumed as a part of the frame, kNo for text.
  enum class Join : uint8_t { kNo, kSkipped, kCall };
  virtual Join joins() { return Join::kNo; }

  // Cursor
  bool has() const { return pos_ < buf_.size(); }
  char cur() const { return buf_[pos_]; }
  std::string_view rest() const { return std::string_view(buf_).substr(pos_); }
  void take(size_t n) { pos_ += n; }
  bool ended() const { return ended_; }
  Match match(const Marker& m) const { return match_at(pos_, m); }
  // Skips blanks and line ends; false when the text ends before anything else.
  bool skip_space();
  // Reads text up to `stop` into *text; the stop is consumed. kMore: more input is needed; kBad: longer than `limit`.
  Step read_until(const Marker& stop, size_t limit, std::string* text);
  // Consumes a marker behind optional space. kBad: something else stands there.
  Step expect(const Marker& m);
  // Reads a JSON object into args().
  Step read_object(JsonPush* json);

  // The call under construction
  void set_name(std::string name) {
    name_ = std::move(name);
    named_ = true;
  }
  const std::string& name() const { return name_; }
  std::string& args() { return args_; }  // appended to by formats
  void grown() {
    if (named_ && (started_ || args_.size() > kHold)) start();
  }
  void commit();
  const AnswerOptions& options() const { return options_; }
  // Text that is content or reasoning whatever it looks like; for formats with channels.
  void content(std::string_view text);
  void reasoning(std::string_view text);
  void end_reasoning() {
    reasoning_hold_.clear();
    reasoning_lead_ = content_lead_ = true;
  }
  // Another stretch of reasoning begins: an empty line lies between them.
  void more_reasoning() { reasoning_hold_ = any_reasoning_ ? "\n\n" : ""; }
  // What was read is decided and will not become text again.
  void settle() { call_begin_ = resume_ = pos_; }

  static constexpr size_t kHold = 64;

 private:
  enum class State : uint8_t { kText, kReasoning, kCall, kBetween };

  void run();
  bool step();
  bool step_text();
  bool step_reasoning();
  bool step_call();
  bool step_between();
  void enter(size_t which, bool next, size_t marker_begin, size_t marker_size);
  void abandon();
  Match match_at(size_t at, const Marker& m) const;
  bool special_at(size_t at, size_t size) const;
  void emit(AnswerDelta::Kind kind, int32_t index, std::string_view text);
  void start();
  void compact();
  void mark_first(const Marker& m);

  AnswerOptions options_;
  Layout layout_;
  std::string buf_;
  size_t base_ = 0;  // bytes dropped from the front
  size_t pos_ = 0;
  std::vector<std::pair<size_t, size_t>> specials_;  // absolute begin, size
  State state_ = State::kText;
  bool ended_ = false;
  std::array<bool, 256> first_{};  // first bytes of the markers that text may hold

  std::string hold_, reasoning_hold_;                  // white space that may turn out to be outside
  bool content_lead_ = false, reasoning_lead_ = true;  // leading white space is dropped
  bool content_seen_ = false, any_reasoning_ = false;

  size_t call_begin_ = 0, resume_ = 0;  // offsets in buf_ of a tentative call and of the text behind its marker
  bool named_ = false, started_ = false;
  std::string name_, args_;
  int32_t calls_ = 0;
  size_t reread_ = 0;  // bytes read again so far
  std::vector<AnswerDelta>* out_ = nullptr;
};

bool valid_call_name(std::string_view name);

}  // namespace bora::text
