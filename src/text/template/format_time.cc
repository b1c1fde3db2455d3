// strftime of the C locale on a civil time without zone.
#include <cstdio>

#include "text/template/interp.h"

namespace bora::text::jinja {

namespace {

constexpr std::string_view kDays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
constexpr std::string_view kMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                        "July",    "August",   "September", "October", "November", "December"};

// Days since 1970-01-01, Gregorian.
int64_t days_from_civil(int64_t y, int64_t m, int64_t d) {
  y -= m <= 2 ? 1 : 0;
  const int64_t era = (y >= 0 ? y : y - 399) / 400;
  const int64_t yoe = y - era * 400, doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
  return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

int64_t weekday(int64_t days) { return ((days % 7) + 11) % 7; }  // 0 = Sunday

struct Clock {
  const CivilTime& t;
  int64_t days = days_from_civil(t.year, t.month, t.day);
  int64_t day_of_year = days - days_from_civil(t.year, 1, 1);
  int64_t wday = weekday(days);
};

// ISO 8601 week and its year.
void iso_week(const Clock& c, int64_t* year, int64_t* week) {
  const int64_t monday_based = (c.wday + 6) % 7;
  const int64_t thursday = c.days - monday_based + 3;
  *year = c.t.year;
  if (thursday < days_from_civil(*year, 1, 1)) --*year;
  if (thursday >= days_from_civil(*year + 1, 1, 1)) ++*year;
  *week = (thursday - days_from_civil(*year, 1, 1)) / 7 + 1;
}

std::string number(int64_t v, int width, char pad) {
  std::string s = std::to_string(v);
  if (pad == '-') return s;
  while (static_cast<int>(s.size()) < width) s.insert(0, 1, pad);
  return s;
}

// One conversion; flag is '-', '_', '0', '^' or 0. Empty with *known false for an unknown one.
std::string conversion(const Clock& c, char code, char flag, bool* known) {
  const CivilTime& t = c.t;
  const auto num = [&](int64_t v, int width, char pad) {
    return number(v, width, flag == '-' ? '-' : flag == '_' ? ' ' : flag == '0' ? '0' : pad);
  };
  const auto month = static_cast<size_t>(t.month >= 1 && t.month <= 12 ? t.month - 1 : 0);
  const int hour12 = t.hour % 12 == 0 ? 12 : t.hour % 12;
  int64_t iso_year, week;
  iso_week(c, &iso_year, &week);
  switch (code) {
    case 'Y': return num(t.year, 1, '0');
    case 'y': return num(((t.year % 100) + 100) % 100, 2, '0');
    case 'C': return num(t.year / 100, 2, '0');
    case 'm': return num(t.month, 2, '0');
    case 'd': return num(t.day, 2, '0');
    case 'e': return num(t.day, 2, ' ');
    case 'H': return num(t.hour, 2, '0');
    case 'k': return num(t.hour, 2, ' ');
    case 'I': return num(hour12, 2, '0');
    case 'l': return num(hour12, 2, ' ');
    case 'M': return num(t.minute, 2, '0');
    case 'S': return num(t.second, 2, '0');
    case 'f': return num(0, 6, '0');
    case 'j': return num(c.day_of_year + 1, 3, '0');
    case 'p': return t.hour < 12 ? "AM" : "PM";
    case 'P': return t.hour < 12 ? "am" : "pm";
    case 'A': return std::string(kDays[c.wday]);
    case 'a': return std::string(kDays[c.wday].substr(0, 3));
    case 'B': return std::string(kMonths[month]);
    case 'b':
    case 'h': return std::string(kMonths[month].substr(0, 3));
    case 'u': return num(c.wday == 0 ? 7 : c.wday, 1, '0');
    case 'w': return num(c.wday, 1, '0');
    case 'U': return num((c.day_of_year + 7 - c.wday) / 7, 2, '0');
    case 'W': return num((c.day_of_year + 7 - (c.wday + 6) % 7) / 7, 2, '0');
    case 'V': return num(week, 2, '0');
    case 'G': return num(iso_year, 1, '0');
    case 'g': return num(iso_year % 100, 2, '0');
    case 's': return num(c.days * 86400 + t.hour * 3600 + t.minute * 60 + t.second, 1, '0');
    case 'n': return "\n";
    case 't': return "\t";
    case '%': return "%";
    case 'z':
    case 'Z': return "";
    default: break;
  }
  *known = false;
  return {};
}

// Conversions that stand for others.
std::string_view expansion(char code) {
  switch (code) {
    case 'F': return "%Y-%m-%d";
    case 'T':
    case 'X': return "%H:%M:%S";
    case 'R': return "%H:%M";
    case 'D':
    case 'x': return "%m/%d/%y";
    case 'c': return "%a %b %e %H:%M:%S %Y";
    case 'r': return "%I:%M:%S %p";
    default: return {};
  }
}

}  // namespace

std::string format_time(const CivilTime& t, std::string_view format) {
  const Clock clock{t};
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 >= format.size()) {
      out.push_back(format[i]);
      continue;
    }
    size_t at = i + 1;
    char flag = 0;
    if (std::string_view("-_0^#").find(format[at]) != std::string_view::npos && at + 1 < format.size())
      flag = format[at++];
    bool known = true;
    const std::string_view longer = expansion(format[at]);
    std::string text = longer.empty() ? conversion(clock, format[at], flag, &known) : format_time(t, longer);
    if (!known) text = std::string(format.substr(i, at + 1 - i));
    if (flag == '^') {
      for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    }
    out += text;
    i = at;
  }
  return out;
}

}  // namespace bora::text::jinja
