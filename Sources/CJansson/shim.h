#pragma once
#include <jansson.h>

// `json_typeof` is a function-like macro, which Swift does not import.
static inline json_type teller_json_type(const json_t *json) { return json->type; }

// The code sits in the last byte of a 160-element char array, which Swift sees as a tuple.
static inline int teller_json_error_code(const json_error_t *error) { return (int)json_error_code(error); }
