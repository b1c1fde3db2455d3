struct Format {};
extern const Format kOne;
const Format* const kFormats[] = {&kOne};
