#include "base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <mutex>

#include "base/json.h"

namespace bora {
namespace {

std::string_view level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarn:
      return "warn";
    case LogLevel::kError:
      return "error";
  }
  return "info";
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

bool plain(std::string_view text) {
  if (text.empty()) return false;
  for (char c : text) {
    if (c <= ' ' || c == '"' || c == '=' || c == '\\' || static_cast<unsigned char>(c) >= 0x7F) return false;
  }
  return true;
}

void append_value(const LogField& field, bool json, std::string* out) {
  if (auto* text = std::get_if<std::string_view>(&field.value)) {
    if (json || !plain(*text)) {
      json_quote(*text, out);
    } else {
      out->append(*text);
    }
    return;
  }
  if (auto* n = std::get_if<int64_t>(&field.value)) out->append(std::to_string(*n));
  if (auto* b = std::get_if<bool>(&field.value)) out->append(*b ? "true" : "false");
  if (auto* d = std::get_if<double>(&field.value)) {
    char buffer[40];
    std::snprintf(buffer, sizeof buffer, "%.6g", *d);
    out->append(Json(*d).dump() == "null" ? "null" : buffer);
  }
}

// "event a=1 b=text", or the members of a JSON object without braces.
std::string body(LogFormat format, std::string_view event, std::initializer_list<LogField> fields) {
  std::string out;
  const bool json = format == LogFormat::kJson;
  if (json) {
    out += "\"event\":";
    json_quote(event, &out);
  } else {
    out += event;
  }
  for (const LogField& field : fields) {
    if (json) {
      out += ',';
      json_quote(field.name, &out);
      out += ':';
    } else {
      out += ' ';
      out += field.name;
      out += '=';
    }
    append_value(field, json, &out);
  }
  return out;
}

class SpdLogger : public Logger {
 public:
  SpdLogger(LogFormat format, LogLevel least)
      : format_(format), least_(least), log_("bora", std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
    log_.set_level(spdlog_level(least));
    log_.set_pattern(format == LogFormat::kJson ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v})"
                                                : "%Y-%m-%d %H:%M:%S.%e %l %v");
  }
  bool enabled(LogLevel level) const override { return level >= least_; }
  void write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) override {
    const std::string text = body(format_, event, fields);
    log_.log(spdlog_level(level), spdlog::string_view_t(text.data(), text.size()));
  }

 private:
  LogFormat format_;
  LogLevel least_;
  spdlog::logger log_;
};

class CallbackLogger : public Logger {
 public:
  CallbackLogger(LogFormat format, LogLevel least, std::function<void(std::string_view)> sink)
      : format_(format), least_(least), sink_(std::move(sink)) {}
  bool enabled(LogLevel level) const override { return level >= least_; }
  void write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) override {
    std::string line;
    if (format_ == LogFormat::kJson) {
      line = "{\"level\":\"" + std::string(level_name(level)) + "\"," + body(format_, event, fields) + "}";
    } else {
      line = std::string(level_name(level)) + " " + body(format_, event, fields);
    }
    std::lock_guard lock(mutex_);
    sink_(line);
  }

 private:
  LogFormat format_;
  LogLevel least_;
  std::mutex mutex_;
  std::function<void(std::string_view)> sink_;
};

class NullLogger : public Logger {
 public:
  bool enabled(LogLevel) const override { return false; }
  void write(LogLevel, std::string_view, std::initializer_list<LogField>) override {}
};

}  // namespace

std::unique_ptr<Logger> make_stderr_logger(LogFormat format, LogLevel least) {
  return std::make_unique<SpdLogger>(format, least);
}

std::unique_ptr<Logger> make_callback_logger(LogFormat format, LogLevel least,
                                             std::function<void(std::string_view)> sink) {
  return std::make_unique<CallbackLogger>(format, least, std::move(sink));
}

std::unique_ptr<Logger> make_null_logger() { return std::make_unique<NullLogger>(); }

}  // namespace bora
