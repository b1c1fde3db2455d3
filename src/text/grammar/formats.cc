// Formats as regular expressions over the whole text. Each accepts a subset of what its RFC and the common validators
// accept, so what it lets through is valid everywhere; dates know the lengths of months and leap years.
#include "text/grammar/schema_model.h"

namespace bora::text {
namespace {

#define BORA_DATE                                                                                    \
  "(?:\\d{3}[1-9]|\\d{2}[1-9]0|\\d[1-9]00|[1-9]000)-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|" \
  "(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))|"                                  \
  "(?:\\d{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29"
#define BORA_TIME "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:[Zz]|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define BORA_OCTET "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define BORA_IPV4 "(?:" BORA_OCTET "\\.){3}" BORA_OCTET
#define BORA_H16 "[0-9a-fA-F]{1,4}"
#define BORA_LABEL "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"

struct Format {
  std::string_view name;
  std::string_view pattern;
};

constexpr Format kFormats[] = {
    {"date", BORA_DATE},
    {"time", BORA_TIME},
    {"date-time", "(?:" BORA_DATE ")[Tt]" BORA_TIME},
    {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
    {"email",
     "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+(?:\\.[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+)*@" BORA_LABEL "(?:\\." BORA_LABEL ")*"},
    {"ipv4", BORA_IPV4},
    {"ipv6",
     "(?:" BORA_H16 ":){7}" BORA_H16 "|(?:" BORA_H16 ":){6}" BORA_IPV4 "|(?:" BORA_H16 ":){1,7}:|(?:" BORA_H16
     ":){1,6}:" BORA_H16 "|(?:" BORA_H16 ":){1,5}(?::" BORA_H16 "){1,2}|(?:" BORA_H16 ":){1,4}(?::" BORA_H16 "){1,3}"
     "|(?:" BORA_H16 ":){1,3}(?::" BORA_H16 "){1,4}|(?:" BORA_H16 ":){1,2}(?::" BORA_H16 "){1,5}"
     "|" BORA_H16 ":(?::" BORA_H16 "){1,6}|:(?:(?::" BORA_H16 "){1,7}|:)"
     "|::(?:" BORA_H16 ":){0,5}" BORA_IPV4},
    {"hostname", "(?:" BORA_LABEL "\\.)*" BORA_LABEL},
    {"uri",
     "[a-zA-Z][a-zA-Z0-9+.-]*:(?://(?:[a-zA-Z0-9._~!$&'()*+,;=:-]|%[0-9a-fA-F]{2})+(?:@(?:[a-zA-Z0-9.-])+)?"
     "(?::\\d{1,5})?(?:/(?:[a-zA-Z0-9._~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2})*)*|"
     "/?(?:[a-zA-Z0-9._~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2})+(?:/(?:[a-zA-Z0-9._~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2})*)*)"
     "(?:\\?(?:[a-zA-Z0-9._~!$&'()*+,;=:@/?-]|%[0-9a-fA-F]{2})*)?"
     "(?:#(?:[a-zA-Z0-9._~!$&'()*+,;=:@/?-]|%[0-9a-fA-F]{2})*)?"}};

}  // namespace

std::string_view format_pattern(std::string_view name) {
  for (const Format& f : kFormats) {
    if (f.name == name) return f.pattern;
  }
  return {};
}

}  // namespace bora::text
