struct Format {};
extern const Format kOther = {};
