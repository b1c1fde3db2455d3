// Logging: leveled lines, text or JSON, to a sink that is handed in. A Logger is passed to whoever logs; there is no
// global.
//
// A line is an event name and fields; it never holds prompt text, answers or keys. Thread-safe; a line is written
// whole.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

namespace bora {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarn, kError };

struct LogField {
  std::string_view name;
  std::variant<int64_t, double, bool, std::string_view> value;
  LogField(std::string_view n, int v) : name(n), value(int64_t{v}) {}
  LogField(std::string_view n, int64_t v) : name(n), value(v) {}
  LogField(std::string_view n, uint64_t v) : name(n), value(static_cast<int64_t>(v)) {}
  LogField(std::string_view n, double v) : name(n), value(v) {}
  LogField(std::string_view n, bool v) : name(n), value(v) {}
  LogField(std::string_view n, std::string_view v) : name(n), value(v) {}
  LogField(std::string_view n, const char* v) : name(n), value(std::string_view(v)) {}
};

class Logger {
 public:
  virtual ~Logger() = default;
  virtual bool enabled(LogLevel level) const = 0;
  virtual void write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) = 0;

  void debug(std::string_view event, std::initializer_list<LogField> fields = {}) {
    log(LogLevel::kDebug, event, fields);
  }
  void info(std::string_view event, std::initializer_list<LogField> fields = {}) {
    log(LogLevel::kInfo, event, fields);
  }
  void warn(std::string_view event, std::initializer_list<LogField> fields = {}) {
    log(LogLevel::kWarn, event, fields);
  }
  void error(std::string_view event, std::initializer_list<LogField> fields = {}) {
    log(LogLevel::kError, event, fields);
  }

 private:
  void log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
    if (enabled(level)) write(level, event, fields);
  }
};

enum class LogFormat : uint8_t { kText, kJson };

// Lines to stderr through spdlog.
std::unique_ptr<Logger> make_stderr_logger(LogFormat format, LogLevel least);
// Lines (without end of line or time stamp) to a function; for tests. The function is called under a lock.
std::unique_ptr<Logger> make_callback_logger(LogFormat format, LogLevel least,
                                             std::function<void(std::string_view)> sink);
// Swallows everything.
std::unique_ptr<Logger> make_null_logger();

}  // namespace bora
