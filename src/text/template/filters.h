// The filters of Jinja2, one function each; the list is in filters.cc.
#pragma once

#include "text/template/interp.h"

namespace bora::text::jinja::filters {

using Names1 = std::array<std::string_view, 1>;
using Names2 = std::array<std::string_view, 2>;
using Names3 = std::array<std::string_view, 3>;
using Names4 = std::array<std::string_view, 4>;
using Names5 = std::array<std::string_view, 5>;

// text
Value capitalize(Interp&, const Args&);
Value center(Interp&, const Args&);
Value escape(Interp&, const Args&);
Value filesizeformat(Interp&, const Args&);
Value forceescape(Interp&, const Args&);
Value format(Interp&, const Args&);
Value indent(Interp&, const Args&);
Value lower(Interp&, const Args&);
Value pprint(Interp&, const Args&);
Value replace_text(Interp&, const Args&);
Value safe(Interp&, const Args&);
Value string(Interp&, const Args&);
Value striptags(Interp&, const Args&);
Value title(Interp&, const Args&);
Value tojson(Interp&, const Args&);
Value trim(Interp&, const Args&);
Value truncate(Interp&, const Args&);
Value upper(Interp&, const Args&);
Value urlencode(Interp&, const Args&);
Value urlize(Interp&, const Args&);
Value wordcount(Interp&, const Args&);
Value wordwrap(Interp&, const Args&);
Value xmlattr(Interp&, const Args&);

// sequences
Value batch(Interp&, const Args&);
Value dictsort(Interp&, const Args&);
Value first(Interp&, const Args&);
Value groupby(Interp&, const Args&);
Value items(Interp&, const Args&);
Value join_items(Interp&, const Args&);
Value last(Interp&, const Args&);
Value length(Interp&, const Args&);
Value list(Interp&, const Args&);
Value map(Interp&, const Args&);
Value max(Interp&, const Args&);
Value min(Interp&, const Args&);
Value random(Interp&, const Args&);
Value reject(Interp&, const Args&);
Value rejectattr(Interp&, const Args&);
Value reverse(Interp&, const Args&);
Value select(Interp&, const Args&);
Value selectattr(Interp&, const Args&);
Value slices(Interp&, const Args&);
Value sort(Interp&, const Args&);
Value sum(Interp&, const Args&);
Value unique(Interp&, const Args&);

// numbers and objects
Value abs(Interp&, const Args&);
Value attr(Interp&, const Args&);
Value default_value(Interp&, const Args&);
Value to_float(Interp&, const Args&);
Value to_int(Interp&, const Args&);
Value round(Interp&, const Args&);

}  // namespace bora::text::jinja::filters
