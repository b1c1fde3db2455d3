struct Format {};
extern const Format kOne = {};
